"""Find the names that a change of a file leaves undefined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from patchkit import memory
from patchkit.codemods.language.formatter import ruff

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOR_TYPES = "TC004"
"""ruff's rule for an import that is only for type checkers, of which running code reads the name."""


def undefined_names(before: bytes, after: bytes, *others: bytes) -> list[tuple[str, int]]:
    """Return the names, with lines, that are undefined in ``after``, not in ``before`` and in none of ``others``.

    A name that is imported only for type checkers is one if running code reads it; its line is that of the import.
    """
    names = _undefined_names(after)
    # Each text starts ruff once, and most have no such name.
    earlier = {name for text in (before, *others) if names for name, _ in _undefined_names(text)}
    return [(name, line) for name, line in names if name not in earlier]


def unbound_names(source: bytes) -> list[tuple[str, int]]:
    """Return the name and line of each read of a name that is undefined or that the function binds later."""
    return _checked("F821,F823", source)


@memory.cached(256)
def _undefined_names(source: bytes) -> list[tuple[str, int]]:
    return _checked(f"F821,{_FOR_TYPES}", source)


def _checked(rules: str, source: bytes) -> list[tuple[str, int]]:
    """Return what ruff finds; a file that is not Python has only findings without a rule of ours."""
    done = ruff(source, "check", "--select", rules, "--output-format", "json")
    findings: list[dict[str, Any]] = msgspec.json.decode(done.stdout or b"[]")
    lines = source.decode(errors="replace").split("\n") if findings else []
    return [_named(finding, lines) for finding in findings if finding["code"] in rules.split(",")]


def _named(finding: dict[str, Any], lines: Sequence[str]) -> tuple[str, int]:
    """Return the name that a finding is about, and its line."""
    start, end = finding["location"], finding["end_location"]
    text = lines[start["row"] - 1][start["column"] - 1 : end["column"] - 1]
    # Of an import the message has another name than the one that it binds.
    name = (
        text.split()[-1].partition(".")[0]
        if finding["code"] == _FOR_TYPES
        else finding["message"].split("`")[1]
    )
    return name, start["row"]
