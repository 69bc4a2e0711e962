"""Run git for the commits of a person: with their identity and filters, without hooks."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.findings.plural import counted
from patchkit.findings.printable import printable
from patchkit.lines import decoded_lines
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from subprocess import CompletedProcess

NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")
OWN_FILES = ("-c", "submodule.recurse=false")
# By default git does not sync objects, so that after a crash a branch could lack its commit.
FLUSHED = ("-c", "core.fsync=all")
_SHOWN_LINES = 20
_SHOWN_BYTES = 64 * 1024
_SHOWN_CHARACTERS = 500
_TERMINAL_SEQUENCE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


def git_output(folder: Path, *arguments: str, given: bytes = b"") -> str:
    """Return git's output without the last line feeds. Raise TreeError with git's message if it fails."""
    done = run_git(folder, *arguments, given=given)
    if done.returncode != 0:
        command = next(word for word in arguments if not word.startswith("-") and "=" not in word)
        raise TreeError(
            f"git {command} failed in {folder} ({error_line(done)})",
            advice="nothing was changed; fix the cause",
        )
    # A folder's name may end in any other white space.
    return os.fsdecode(done.stdout).rstrip("\n")


def run_git(
    folder: Path,
    *arguments: str,
    settings: Mapping[str, str] | None = None,
    new_session: bool = False,
    given: bytes = b"",
) -> CompletedProcess[bytes]:
    """Run git with its filters but without hooks; path arguments are not patterns."""
    environment = {"GIT_LITERAL_PATHSPECS": "1", **(settings or {})}
    words = (*NO_HOOKS, *arguments)
    return git(folder, *words, settings=environment, personal=True, new_session=new_session, given=given)


def error_line(done: CompletedProcess[bytes]) -> str:
    """Return the line of the output in which git, or a hook, reports the error."""
    if done.returncode < 0:
        return f"git was ended by the signal {signal.Signals(-done.returncode).name}"
    lines = [line.strip() for line in (done.stderr or done.stdout).decode(errors="replace").splitlines()]
    failures = (line for line in lines if any(word in line.lower() for word in ("fail", "error", "fatal")))
    failed = next(failures, next(filter(None, lines), "without a message"))
    said = next((line for line in lines if line and line != failed), "")
    # Git says that a hook refused, and the hook why.
    return f"{failed}: {said}" if said and "by hook" in failed else failed


def last_lines(done: CompletedProcess[bytes]) -> tuple[str, ...]:
    """Return the last lines that git and its hooks printed, without control characters and without empty lines."""
    if done.returncode < 0:
        return (error_line(done),)
    printed = done.stdout + done.stderr
    shown = _TERMINAL_SEQUENCE.sub(b"", printed[-_SHOWN_BYTES:])
    lines = [printable(line.rstrip()) for line in decoded_lines(shown) if line.strip()]
    earlier = len(lines) - _SHOWN_LINES + printed[:-_SHOWN_BYTES].count(b"\n")
    cut = (f"... {counted(earlier, 'earlier line')}",) if earlier > 0 else ()
    return (*cut, *map(_shortened, lines[-_SHOWN_LINES:])) or ("no message was printed",)


def _shortened(line: str) -> str:
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."
