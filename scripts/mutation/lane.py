"""A scratch copy of the checkout, which runs one mutant at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from .notes import PROFILE, TRIAL, Trial, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .mutants import Mutant

PARTS = ("patchkit", "patches", "tests", "scripts", "pyproject.toml")
_NOT_STARTED = (3, 4)
"""pytest's exit codes where the code that its plugins import cannot be imported."""
_OPTIONS = ("-x", "-q", "--tb=short", "--assert=plain", "-p", "no:cacheprovider", "-p", "mutation.plugin")


@dataclass(frozen=True)
class Fate:
    """The result of a run of tests: the failed ``test`` and its ``message``."""

    killed: bool
    test: str = ""
    message: str = ""
    seconds: float = 0.0


class Lane:
    """A copy of the files that tests need, below ``folder``."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.folder = folder
        self._cache = os.environ.get("PATCHKIT_TEST_CACHE") or str(checkout / ".cache")
        self.checkout = folder / "checkout"
        for part in PARTS:
            source = checkout / part
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", ".*")
                shutil.copytree(source, self.checkout / part, ignore=ignored)
            elif source.exists():
                shutil.copy(source, self.checkout / part)
        self._serial = 0
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def broken(self, mutant: Mutant) -> Iterator[None]:
        """Insert a mutant into the copy."""
        path = self.checkout / mutant.file
        original = path.read_bytes()
        self._write(path, mutant.text.encode())
        try:
            yield
        finally:
            self._write(path, original)

    def _write(self, path: Path, content: bytes) -> None:
        # Python checks only time and size of compiled files, which may equal the previous mutant's.
        self._serial += 1
        path.write_bytes(content)
        os.utime(path, (self._serial, self._serial))

    def test(self, trial: Trial, suites: Sequence[str], arguments: Sequence[str], limit: float) -> Fate:
        """Run ``suites``. Raise SystemExit if pytest cannot run."""
        scratch = self.folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        settings, verdict = self.folder / "trial.json", Path(trial.verdict)
        settings.write_bytes(msgspec.json.encode(trial))
        verdict.unlink(missing_ok=True)
        scripts = self.checkout / "scripts"
        paths = [str(self.checkout), str(scripts), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONHASHSEED": "0",
            "TMPDIR": str(scratch),
            "PATCHKIT_TEST_CACHE": self._cache,
            TRIAL: str(settings),
        }
        command = [sys.executable, "-m", "pytest", *_OPTIONS, f"--hypothesis-profile={PROFILE}"]
        command += [f"--basetemp={scratch / 'pytest'}", *suites, *arguments]
        started = time.monotonic()
        with (self.folder / "output").open("w+") as output:
            self._process = process = subprocess.Popen(
                command,
                cwd=self.checkout,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                return Fate(True, "timeout", f"more than {limit:.0f} s", time.monotonic() - started)
            finally:
                self.stop()
            seconds = time.monotonic() - started
            if code == 0:
                return Fate(False, seconds=seconds)
            if verdict.exists():
                first = msgspec.json.decode(verdict.read_bytes(), type=Verdict)
                return Fate(True, first.test, first.message, seconds)
            if code < 0:
                return Fate(True, "crash", signal.Signals(-code).name, seconds)
            output.seek(0)
            lines = output.readlines()
            if code in _NOT_STARTED:
                return Fate(True, "start", lines[-1].strip() if lines else "", seconds)
            tail = "".join(lines[-20:])
            raise SystemExit(f"mutate: pytest ended with {code}:\n{tail}")

    def stop(self) -> None:
        """Kill pytest and all processes that it started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
