"""A change that was made to a text is undone in a later state of it, where it stands."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Merged(NamedTuple):
    """A text with a change undone; ``proof`` is the same without what had to stay because a person uses it."""

    text: bytes | None
    proof: bytes | None


def merge(file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> Merged:
    """Make in ``ours`` each change from ``base`` to ``theirs``; None stands for no file."""
    if base in (ours, theirs) or ours == theirs:
        text = theirs if base == ours else ours
    else:
        if base is None or ours is None or theirs is None:
            raise ConflictError(
                f"{file}, which patchkit made or took away, was edited since: move it elsewhere."
            )
        text = _merge(file, base, ours, theirs)
    return Merged(text, text)


def _merge(file: str, base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Make in ``ours`` each change from ``base`` to ``theirs`` where its lines stand as ``base`` has them.

    A three-way merge would take any edit on the line beside a change for a conflict with it; but beside the
    line that a patch added is where a person adds the next one.
    """
    if base in (ours, theirs) or ours == theirs:
        return theirs if base == ours else ours
    old, mine, new = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    as_left, as_was = _Alignment(old, mine), _Alignment(new, mine)
    merged = list(mine)
    for tag, start, end, new_start, new_end in reversed(SequenceMatcher(None, old, new).get_opcodes()):
        if tag == "equal":
            continue
        at = as_left.place(start, end)
        if at is not None:
            merged[at : at + end - start] = new[new_start:new_end]
        elif as_was.place(new_start, new_end) is None:
            raise ConflictError(
                f"{file}:{as_left.line(start)}: patchkit's edit was itself edited since: put those lines "
                "back as apply left them, or, if the whole tree was replaced since, remove its .patchkit."
            )
    return b"".join(merged)


class _Alignment:
    """Where the lines of one text stand in another."""

    def __init__(self, lines: Sequence[bytes], others: Sequence[bytes]) -> None:
        blocks = SequenceMatcher(None, lines, others).get_matching_blocks()
        self._places = {start + n: other + n for start, other, size in blocks for n in range(size)}
        # The ends of the two texts stand beside each other, as lines would.
        self._places |= {-1: -1, len(lines): len(others)}

    def place(self, start: int, end: int) -> int | None:
        """Return where the lines from ``start`` to ``end`` stand together, a neighbour beside them, or None.

        No lines stand between two neighbours that touch.
        """
        at = self._places.get(start - 1, -2) + 1 if start == end else self._places.get(start, -1)
        inside = all(self._places.get(start + n) == at + n for n in range(end - start))
        beside = self._places.get(start - 1) == at - 1, self._places.get(end) == at + end - start
        return at if inside and (all(beside) if start == end else any(beside)) else None

    def line(self, start: int) -> int:
        """Return the number of the line that stands behind the last one known before ``start``."""
        return max(place for line, place in self._places.items() if line < start) + 2
