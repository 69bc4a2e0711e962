"""Small programs for the audit: a prelude with a minimal sglang, and marked cases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.tree import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parents[1] / "audit"
_PLACE = re.compile(r"^# place: (\S+)$", re.MULTILINE)
_MARK = re.compile(r"# finds (PK\d+)(?: (certain|likely|possible))?$")
_DEFAULT_PLACE = "srt/managers/example.py"


class MemoryTree(tree.MemoryTree):
    """A tree that is a dictionary of texts."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__({name: text.encode() for name, text in files.items()})


@dataclass(frozen=True)
class Expected:
    file: str
    line: int
    rule: str
    confidence: str | None


def prelude() -> dict[str, str]:
    root = HERE / "prelude"
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(root.rglob("*.py"))}


def program(source: str) -> MemoryTree:
    """Return the prelude with one more file, or with several where ``# place:`` lines split the source."""
    return MemoryTree({**prelude(), **sections(source)})


def sections(source: str) -> dict[str, str]:
    parts = _PLACE.split(source)
    if len(parts) == 1:
        return {_DEFAULT_PLACE: source}
    return dict(zip(parts[1::2], (text.removeprefix("\n") for text in parts[2::2]), strict=True))


def expected(source: str) -> list[Expected]:
    found = []
    for file, text in sections(source).items():
        for number, line in enumerate(text.splitlines(), 1):
            for rule, confidence in _MARK.findall(line):
                found.append(Expected(file, number, rule, confidence or None))
    return found
