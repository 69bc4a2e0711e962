"""Check that every patched module can be imported, in a separate process with stand-ins for missing packages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING

import msgspec

from patchkit.findings.rule import Rule
from patchkit.tree.sglang import module_of, serves
from patchkit.verify import stand_ins
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from patchkit.verify.subject import Subject

LOADING = Rule("PV601", "import-error", "a patched module cannot be imported")
_SECONDS = 300
# Only for a patchkit that is stopped: a running one ends the process itself, and reports it.
_GRACE = 10


class _Answer(msgspec.Struct):
    errors: dict[str, tuple[int, str]]
    absent: tuple[str, ...]


@register("import", "Patched modules can be imported", LOADING, order=90, runs_code=True)
def check(subject: Subject) -> CheckOutcome:
    """Import the modules with edits, except tests, with this interpreter."""
    if find_spec("torch") is None:
        remedy = "pip install torch in that environment (a CPU build is enough)"
        return _not_made(f"importing needs torch, which is not installed in {sys.prefix}", remedy)
    files = [file for file in subject.files if serves(file)]
    modules = {module_of(file, subject.tree.name): file for file in files}
    contents = {
        str(subject.tree.package / file): text.decode("latin-1")
        for file, text in subject.replaced.items()
        if text is not None
    }
    request = {"path": str(subject.tree.package.parent), "modules": list(modules), "contents": contents}
    with tempfile.TemporaryFile() as channel, tempfile.TemporaryFile() as stderr:
        code = _import(request, channel, stderr)
        if code is None:
            return _not_made(
                f"the modules were not imported in {_SECONDS} s", "import one of them by hand to see why"
            )
        answer = _read(channel)
        if code or answer is None:
            last = (_text(stderr).strip().splitlines() or [f"exit code {code}"])[-1]
            return _not_made(f"the import process ended early: {last}", "fix what it names")
    findings = tuple(
        violation(LOADING, modules[name], line, message, "fix what the message names", expression=name)
        for name, (line, message) in answer.errors.items()
        if name in modules
    )
    notes = (f"stand-ins for {', '.join(answer.absent)}",) if answer.absent else ()
    return CheckOutcome(f"{len(modules)} modules", findings, notes)


def _import(request: object, channel: IO[bytes], stderr: IO[bytes]) -> int | None:
    """Import the requested modules; return the exit code, or None after the time limit.

    All processes that it started are ended, too, even if this process is killed, which closes its end of the
    ``lifeline``. ``channel`` takes the result; it and ``stderr`` are files, since a process that the modules leave
    behind would keep a pipe open.
    """
    ends = os.pipe()
    with open(ends[0], "rb") as lifeline, open(ends[1], "wb"):
        words = map(str, (channel.fileno(), lifeline.fileno(), _SECONDS + _GRACE))
        process = subprocess.Popen(
            (sys.executable, stand_ins.__file__, *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            pass_fds=(channel.fileno(), lifeline.fileno()),
            start_new_session=True,
        )
        try:
            process.communicate(json.dumps(request).encode(), timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _read(channel: IO[bytes]) -> _Answer | None:
    try:
        return msgspec.json.decode(_text(channel), type=_Answer)
    except msgspec.DecodeError:
        return None


def _not_made(message: str, remedy: str) -> CheckOutcome:
    reason = violation(LOADING, "__init__.py", 1, message, remedy)
    return CheckOutcome("not made", (reason,), obstacle="the modules were not imported")
