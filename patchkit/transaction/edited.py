"""Show what a person changed in the code that patches wrote."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_AROUND = 1
"""The most unchanged lines that are shown above and below a change."""


def difference(original: bytes | None, written: bytes | None, current: bytes | None) -> str:
    """Return a unified diff of a file, from what patches wrote to what stands there, where it concerns their lines.

    These are the lines that the ``original`` lacks. Return an empty text if they stand there as they were written, or
    if there is no such file.
    """
    if original is None or written is None or current is None:
        return ""
    before, wrote, there = (_lines(text) for text in (original, written, current))
    codes = SequenceMatcher(None, before, wrote, autojunk=False).get_opcodes()
    own = {line for tag, _, _, start, end in codes if tag != "equal" for line in range(start, end)}
    hunks = SequenceMatcher(None, wrote, there, autojunk=False).get_grouped_opcodes(_AROUND)
    return "".join(
        f"{line}\n"
        for hunk in hunks
        if any(_concerns(code, own) for code in hunk)
        for line in _written(hunk, wrote, there)
    )


def accepting(patch: str, edit: str) -> str:
    """Return what accepts a person's change of an edit, and what takes it back, for messages."""
    return (
        f"patchkit resolve {patch} {edit} --accept accepts the change; to take it back, restore the lines marked -, "
        "for example with git restore -p"
    )


def _lines(text: bytes) -> list[str]:
    return text.decode(errors="replace").replace("\r\n", "\n").split("\n")


def _concerns(code: tuple[str, int, int, int, int], own: set[int]) -> bool:
    """Return whether a change is of the patches' own lines, or between two of them."""
    tag, start, end, _, _ = code
    return tag != "equal" and (not own.isdisjoint(range(start, end)) or {start - 1, end} <= own)


def _written(
    hunk: list[tuple[str, int, int, int, int]], before: list[str], after: list[str]
) -> Iterator[str]:
    (_, old, _, new, _), (_, _, old_end, _, new_end) = hunk[0], hunk[-1]
    yield f"@@ -{old + 1},{old_end - old} +{new + 1},{new_end - new} @@"
    for tag, start, end, other, other_end in hunk:
        if tag == "equal":
            yield from (f" {line}" for line in before[start:end])
        else:
            yield from (f"-{line}" for line in before[start:end])
            yield from (f"+{line}" for line in after[other:other_end])
