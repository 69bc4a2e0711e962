"""Find the names that a change of a file leaves undefined."""

from __future__ import annotations

from typing import Any

import msgspec

from patchkit import collector
from patchkit.codemods.language.formatter import ruff


def undefined_names(before: bytes, after: bytes, *others: bytes) -> list[tuple[str, int]]:
    """Return the names, with lines, that are undefined in ``after``, not in ``before`` and in none of ``others``."""
    found = _undefined_names(after)
    # Each text starts ruff once, and most have no such name.
    known = {name for text in (before, *others) if found for name, _ in _undefined_names(text)}
    return [(name, line) for name, line in found if name not in known]


def unbound_names(source: bytes) -> list[tuple[str, int]]:
    """Return the name and line of each read of a name that is undefined or that the function binds later."""
    return _checked("F821,F823", source)


@collector.cached(256)
def _undefined_names(source: bytes) -> list[tuple[str, int]]:
    return _checked("F821", source)


def _checked(rules: str, source: bytes) -> list[tuple[str, int]]:
    """Return what ruff finds; a file that is not Python has only findings without a rule of ours."""
    done = ruff(source, "check", "--select", rules, "--output-format", "json")
    found: list[dict[str, Any]] = msgspec.json.decode(done.stdout or b"[]")
    return [
        (each["message"].split("`")[1], each["location"]["row"])
        for each in found
        if each["code"] in rules.split(",")
    ]
