"""Run git for the commits of a person: with their identity and filters, without hooks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from subprocess import CompletedProcess

_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")
OWN_FILES = ("-c", "submodule.recurse=false")


def git_output(folder: Path, *arguments: str) -> str:
    """Return git's output. Raise TreeError with git's message if it fails."""
    done = run_git(folder, *arguments)
    if done.returncode != 0:
        command = next(word for word in arguments if not word.startswith("-") and "=" not in word)
        raise TreeError(
            f"git {command} failed in {folder} ({error_line(done)})",
            advice="nothing was changed; fix the cause",
        )
    return os.fsdecode(done.stdout).strip()


def run_git(
    folder: Path, *arguments: str, settings: Mapping[str, str] | None = None, new_session: bool = False
) -> CompletedProcess[bytes]:
    """Run git with its filters but without hooks; path arguments are not patterns."""
    environment = {"GIT_LITERAL_PATHSPECS": "1", **(settings or {})}
    return git(folder, *_NO_HOOKS, *arguments, settings=environment, personal=True, new_session=new_session)


def error_line(done: CompletedProcess[bytes]) -> str:
    """Return the line of the output in which git, or a hook, reports the error."""
    lines = [line.strip() for line in (done.stderr or done.stdout).decode(errors="replace").splitlines()]
    failed = (line for line in lines if any(word in line.lower() for word in ("fail", "error", "fatal")))
    return next(failed, next(filter(None, lines), "without a message"))
