"""Merge three versions of a text line by line, as git does: changes that touch each other are a conflict."""

from __future__ import annotations

import difflib
import io
from collections import Counter
from itertools import accumulate, groupby, takewhile
from typing import TYPE_CHECKING, AnyStr, NamedTuple

from patchkit.change.edits import EditOutcome, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_CONTEXT = 3
"""The number of lines around a block that must be the same to replace it."""
_RUN = 50
"""The most equal lines in a row that are compared one by one."""


class LineHunk(NamedTuple):
    """Lines ``start`` to ``end`` of the base, and those that replace them."""

    start: int
    end: int
    lines: list[str]


def merged(base: str, theirs: str, ours: str) -> tuple[str, list[EditOutcome]]:
    """Return ``ours`` with the changes from ``base`` to ``theirs``, and the outcome of each change."""
    # Iterating a stream splits at line feeds only, as git does.
    b, t, o = (list(io.StringIO(text)) for text in (base, theirs, ours))
    own = hunks(b, o)
    base_lines, current = Counter(b), Counter(o)
    made: list[LineHunk] = []
    edits: list[EditOutcome] = []
    for hunk in hunks(b, t):
        touching = [edit for edit in own if edit.start <= hunk.end and hunk.start <= edit.end]
        removed = b[hunk.start : hunk.end]
        site, base_text, wanted = f"line {hunk.start + 1}", "".join(removed), "".join(hunk.lines)
        if not touching:
            made.append(hunk)
            edits.append(EditOutcome(site, Outcome.LANDED))
            continue
        is_moved = any(line.strip() and current[line] >= base_lines[line] for line in removed)
        if touching == [hunk] and not is_moved:
            edits.append(EditOutcome(site, Outcome.ALREADY))
            continue
        ours_text = "".join(line for edit in touching for line in edit.lines)
        reason = "the lines differ in this tree"
        edits.append(EditOutcome(site, Outcome.CONFLICT, reason, base_text, ours_text, wanted))
    return with_hunks(b, sorted((*own, *made))), edits


def clean(base: str, theirs: str, ours: str) -> str | None:
    """Return ``ours`` with the changes from ``base`` to ``theirs``; None if one of them is a conflict."""
    text, edits = merged(base, theirs, ours)
    return text if {edit.outcome for edit in edits} <= {Outcome.LANDED, Outcome.ALREADY} else None


def hunks(one: list[str], other: list[str]) -> list[LineHunk]:
    """Return what differs in the lines of two texts."""
    # Most lines at both ends are equal, and a comparison takes long.
    start, end = common_ends(one, other)
    base_units, other_units = _units(one[start : len(one) - end]), _units(other[start : len(other) - end])
    offsets = list(accumulate(map(len, base_units), initial=start))
    codes = difflib.SequenceMatcher(None, base_units, other_units, autojunk=False).get_opcodes()
    return [
        LineHunk(offsets[first], offsets[last], [line for unit in other_units[low:high] for line in unit])
        for tag, first, last, low, high in codes
        if tag != "equal"
    ]


def common_ends(*rows: list[AnyStr]) -> tuple[int, int]:
    """Return how many lines at the start of some texts, and how many of the others at the end, are equal in all."""
    start = _equal_at_start(rows)
    return start, _equal_at_start([row[start:][::-1] for row in rows])


def _equal_at_start(rows: Iterable[list[AnyStr]]) -> int:
    return sum(1 for _ in takewhile(lambda lines: len({*lines}) == 1, zip(*rows, strict=False)))


def _units(lines: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the lines one by one, and a long run of equal ones at once: comparing each with each takes long."""
    runs = (tuple(run) for _, run in groupby(lines))
    return [unit for run in runs for unit in ([run] if len(run) > _RUN else [(line,) for line in run])]


def with_hunks(base: Sequence[str], hunks: Sequence[LineHunk]) -> str:
    """Return lines with those of ``hunks``, in order, in place of theirs."""
    result: list[str] = []
    last = 0
    for hunk in hunks:
        result += [*base[last : hunk.start], *hunk.lines]
        last = hunk.end
    return "".join([*result, *base[last:]])


def with_block(base: bytes, theirs: bytes, ours: bytes) -> bytes | None:
    """Return ``ours`` with the lines of ``theirs`` for all those from the first to the last that differ in ``base``.

    Return None if ``ours`` does not have these lines of ``base``, with the ones around them, at exactly one place, or
    has those of ``theirs`` too. This checks nothing else, and is much faster than a merge.
    """
    base_lines, their_lines = base.splitlines(keepends=True), theirs.splitlines(keepends=True)
    start, same = common_ends(base_lines, their_lines)
    first, last = max(start - _CONTEXT, 0), max(same - _CONTEXT, 0)
    old, new = (b"".join(lines[first : len(lines) - last]) for lines in (base_lines, their_lines))
    text, old, new = (b"\n" + text for text in (ours, old, new))
    # Of equal lines, those that were changed cannot be distinguished.
    return None if text.count(old) != 1 or new in text else text.replace(old, new)[1:]
