"""The child processes that execute a tree's settings, one for each GPU, and the limits on them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

_PATCHKIT = Path(__file__).parents[3]
_START = (
    "import sys; sys.path.append(sys.argv.pop(1)); from patchkit.doctor.execution.program import main; main()"
)
# For one answer; the first one has to import the tree.
_SECONDS = 180
# Only for a patchkit that is stopped: a running one ends the process itself.
_LIFETIME = 3600
_PAUSE = 0.2
_MAX_ANSWER = 4 << 20

Value = str | bool | int | float | None


class Request(msgspec.Struct, omit_defaults=True):
    """A launch: its options, those of its configuration file, and its environment.

    In ``options`` None is a word that is not known; with ``is_alone`` false there may be options of another program.
    ``settings`` count below the options and ``overrides`` above them; ``model`` and ``draft`` are configurations for
    models that are not on this machine, or for all if they are ``named``.
    """

    options: list[str | None] = []
    is_alone: bool = True
    configured: list[tuple[str, list[str]]] = []
    environment: dict[str, str] = {}
    settings: dict[str, Value] = {}
    overrides: dict[str, Value] = {}
    model: dict[str, Any] = {}
    draft: dict[str, Any] = {}
    model_named: bool = False
    draft_named: bool = False


class Executed(msgspec.Struct):
    """What became of a launch: its ``settings``, the tree's own refusal, or why its code could not be executed.

    ``parsed`` are the settings before the start, ``facts`` what the tree says of the model, and ``found`` whether
    that is the launch's own one; ``files`` are those whose code ran for a process's first launch. ``where`` is
    the file and line of a refusal or failure, ``known`` the parser's options, and ``others`` those of another program.
    """

    settings: dict[str, Value] = {}
    parsed: dict[str, Value] = {}
    facts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    found: bool = False
    refused: str = ""
    by_parser: bool = False
    failed: str = ""
    where: str = ""
    known: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class Execution:
    """Executes launches from a ``folder`` on one tree; leaving the context ends every process."""

    def __init__(self, package: Path, name: str, folder: Path) -> None:
        self._name = name
        self._package = package
        self._folder = folder
        self._open = ExitStack()
        self._processes: dict[tuple[str, bool], _Process] = {}

    def __enter__(self) -> Execution:
        """Make the folder in which the processes run, with the package under the name that its code expects."""
        made = tempfile.TemporaryDirectory(prefix="patchkit-", ignore_cleanup_errors=True)
        self._private = self._open.enter_context(made)
        os.symlink(self._package.absolute(), os.path.join(self._private, self._name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def ask(self, gpu: str, request: Request, files: Mapping[str, str]) -> Executed:
        """Return what becomes of a launch on a GPU, on the tree with some ``files`` replaced."""
        key = gpu, bool(files)
        process = self._processes.get(key)
        if process is None or process.files != files or process.is_old:
            if process is not None:
                process.end()
            words = self._name, str(self._folder), gpu
            process = self._processes[key] = _Process(self._private, words, files, self._open)
        return process.ask(request)


class _Process:
    """A process that executes settings on one GPU, in a group of its own."""

    def __init__(
        self, private: str, words: Sequence[str], files: Mapping[str, str], stack: ExitStack
    ) -> None:
        self.files = files
        ends = [os.pipe(), os.pipe()]
        (answers, channel), (lifeline, held) = ends
        self._answers = answers
        self._rest = b""
        self._failed = ""
        self._ended = False
        self._old_at = time.monotonic() + _LIFETIME - _SECONDS
        for descriptor in (answers, held):
            stack.callback(os.close, descriptor)
        words = (str(_PATCHKIT), *words, str(channel), str(lifeline), str(_LIFETIME))
        self._process = subprocess.Popen(
            (sys.executable, "-B", "-c", _START, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(channel, lifeline),
            cwd=private,
            env=_environment(private),
            start_new_session=True,
        )
        stack.callback(self.end)
        os.close(channel)
        os.close(lifeline)
        self._send(files)

    @property
    def is_old(self) -> bool:
        """Whether a further launch may not be executed in the time that is left; one that failed is not tried again."""
        return not self._failed and time.monotonic() > self._old_at

    def end(self) -> None:
        """End the process and all that it started."""
        if self._ended:
            return
        self._ended = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def ask(self, request: Request) -> Executed:
        """Return the answer to a request; once the process has failed, it is that failure."""
        if self._failed:
            return Executed(failed=self._failed)
        try:
            self._send(request)
            return msgspec.json.decode(self._line(), type=Executed)
        except (OSError, msgspec.DecodeError):
            self._failed = self._failed or "the process that executes them ended early"
            return Executed(failed=self._failed)

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        # A process that ended is found out by its missing answer.
        with suppress(OSError):
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")
            self._process.stdin.flush()

    def _line(self) -> bytes:
        until = time.monotonic() + _SECONDS
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            readable, _, _ = select.select([self._answers], [], [], min(max(left, 0), _PAUSE))
            if not readable:
                if left <= 0:
                    self._failed = f"they were not executed in {_SECONDS} s"
                # What it has started may hold its end of the pipe.
                if left <= 0 or self._process.poll() is not None:
                    raise TimeoutError
                continue
            read = os.read(self._answers, 1 << 16)
            if not read or len(self._rest) > _MAX_ANSWER:
                raise OSError
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _environment(private: str) -> dict[str, str]:
    """Return the environment of the process: none of this machine's settings but where programs are."""
    threads = dict.fromkeys(("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": private,
        "TMPDIR": private,
        "LANG": "C.UTF-8",
        **threads,
    }
