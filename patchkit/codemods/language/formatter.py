"""Format code with ruff, whose output matches black's for statements and isort's for imports."""

from __future__ import annotations

import functools
import os
import subprocess

from ruff.__main__ import find_ruff_bin

_SORTING = ("check", "--select", "I", "--fix-only", "--quiet", "--config", "src = []")


@functools.cache
def formatted(code: str, width: int) -> str | None:
    """Return Python code formatted by ruff at a line length of ``width``, or None if ruff cannot parse it."""
    return _run(("format", "--quiet"), code, width)


@functools.cache
def sorted_imports(code: str, width: int, first_party: str) -> str | None:
    """Return code with each run of imports sorted, or None if ruff cannot parse it.

    ``first_party`` is the name of the tree's own package.
    """
    return _run((*_SORTING, "--config", f"lint.isort.known-first-party = ['{first_party}']"), code, width)


@functools.cache
def _ruff() -> str:
    found: str = find_ruff_bin()
    return found


def _run(command: tuple[str, ...], code: str, width: int) -> str | None:
    # Ignore settings of parent folders, and read none of the tree's files.
    options = ("--isolated", "--no-cache", "--config", f"line-length = {width}", "-")
    ended = subprocess.run(
        (_ruff(), *command, *options),
        input=code.encode(),
        capture_output=True,
        check=False,
        cwd=os.sep,
    )
    return ended.stdout.decode() if ended.returncode == 0 else None
