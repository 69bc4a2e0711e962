"""Run ruff, and format code with it, whose output matches black's for statements and isort's for imports."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from ruff.__main__ import find_ruff_bin

if TYPE_CHECKING:
    from collections.abc import Sequence

_SORTING = ("check", "--select", "I", "--fix-only", "--config", "src = []")
_PART = "_patchkit_part"
_NEXT = re.compile(rf"^{_PART}$", re.MULTILINE)


class RuffTask(NamedTuple):
    """Python code for a command of ruff. Blank lines around what is made of it do not count."""

    command: tuple[str, ...]
    code: str


def formatting(code: str, width: int) -> RuffTask:
    """Return what formats code at a line length of ``width``."""
    return RuffTask(("format", *_config("line-length", width)), code)


def sorting(code: str, width: int, first_party: str) -> RuffTask:
    """Return what sorts each run of imports; ``first_party`` is the name of the tree's own package."""
    own = _config("lint.isort.known-first-party", [first_party])
    return RuffTask((*_SORTING, *own, *_config("line-length", width)), code)


def _config(key: str, value: object) -> tuple[str, str]:
    return "--config", f"{key} = {value}"


_MADE: dict[RuffTask, str | None] = {}


def made_of(requests: Sequence[RuffTask]) -> list[str | None]:
    """Return what ruff makes of each code, None of what it cannot parse. It runs once for all codes of a command."""
    fresh: dict[tuple[str, ...], dict[str, None]] = {}
    for request in requests:
        if request not in _MADE:
            fresh.setdefault(request.command, {})[request.code] = None
    for command, codes in fresh.items():
        made = _run(command, f"\n{_PART}\n".join(codes))
        parts: list[str | None] = [f"{part.strip(chr(10))}\n" for part in _NEXT.split(made or "")]
        if made is None or len(parts) != len(codes):
            parts = [_run(command, code) for code in codes]
        _MADE.update((RuffTask(command, code), part) for code, part in zip(codes, parts, strict=True))
    return [_MADE[request] for request in requests]


def _run(command: tuple[str, ...], code: str) -> str | None:
    ended = ruff(code.encode(), *command)
    return ended.stdout.decode() if ended.returncode == 0 else None


def ruff(source: bytes, *command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command of ruff on a source, with no settings of parent folders and none of the tree's files."""
    words = (_program(), *command, "--isolated", "--no-cache", "--quiet", "-")
    return subprocess.run(words, input=source, capture_output=True, check=False, cwd=os.sep)


@functools.cache
def _program() -> str:
    program: str = find_ruff_bin()
    return program
