"""Code as the formatter writes it: ruff, whose statements are black's and whose sorted imports are isort's."""

from __future__ import annotations

import functools
import os
import subprocess

from ruff.__main__ import find_ruff_bin

_SORTING = ("check", "--select", "I", "--fix-only", "--quiet", "--config", "src = []")


@functools.cache
def formatted(code: str, width: int) -> str | None:
    """Return Python code as ruff formats it at a line length of ``width``, None if ruff cannot read it."""
    return _run(("format", "--quiet"), code, width)


@functools.cache
def sorted_imports(code: str, width: int, first_party: str) -> str | None:
    """Return code with each run of its imports sorted, None if ruff cannot read it.

    ``first_party`` is the package that its own imports come from.
    """
    return _run((*_SORTING, "--config", f"lint.isort.known-first-party = ['{first_party}']"), code, width)


def _run(command: tuple[str, ...], code: str, width: int) -> str | None:
    # No settings of a folder above count, and none of the tree's files is looked at.
    options = ("--isolated", "--no-cache", "--config", f"line-length = {width}", "-")
    ended = subprocess.run(
        (find_ruff_bin(), *command, *options),
        input=code.encode(),
        capture_output=True,
        check=False,
        cwd=os.sep,
    )
    return ended.stdout.decode() if ended.returncode == 0 else None
