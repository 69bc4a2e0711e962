"""Run ruff, and format code with it, whose output matches black's for statements and isort's for imports."""

from __future__ import annotations

import functools
import os
import subprocess

from ruff.__main__ import find_ruff_bin

_SORTING = ("check", "--select", "I", "--fix-only", "--config", "src = []")


@functools.cache
def formatted(code: str, width: int) -> str | None:
    """Return Python code formatted by ruff at a line length of ``width``, or None if ruff cannot parse it."""
    return _run(("format",), code, width)


@functools.cache
def sorted_imports(code: str, width: int, first_party: str) -> str | None:
    """Return code with each run of imports sorted, or None if ruff cannot parse it.

    ``first_party`` is the name of the tree's own package.
    """
    return _run((*_SORTING, "--config", f"lint.isort.known-first-party = ['{first_party}']"), code, width)


def _run(command: tuple[str, ...], code: str, width: int) -> str | None:
    ended = ruff(code.encode(), *command, "--config", f"line-length = {width}")
    return ended.stdout.decode() if ended.returncode == 0 else None


def ruff(source: bytes, *command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command of ruff on a source, with no settings of parent folders and none of the tree's files."""
    words = (_program(), *command, "--isolated", "--no-cache", "--quiet", "-")
    return subprocess.run(words, input=source, capture_output=True, check=False, cwd=os.sep)


@functools.cache
def _program() -> str:
    program: str = find_ruff_bin()
    return program
