"""Compute the smallest set of lines that differ between two texts."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_MAX_CHANGED_LINES = 600
"""The most changed lines for which the smallest set is computed."""


class Run(NamedTuple):
    """Lines ``start`` to ``end`` of one text, from 0 and exclusive, become lines ``at`` to ``to`` of another."""

    start: int
    end: int
    at: int
    to: int


def runs(old: Sequence[str], new: Sequence[str]) -> list[Run]:
    """Return the runs of changed lines, from top to bottom."""
    top = 0
    while top < min(len(old), len(new)) and old[top] == new[top]:
        top += 1
    bottom = 0
    while bottom < min(len(old), len(new)) - top and old[-1 - bottom] == new[-1 - bottom]:
        bottom += 1
    inner_old, inner_new = old[top : len(old) - bottom], new[top : len(new) - bottom]
    joined = _joined(_pairs(inner_old, inner_new), len(inner_old), len(inner_new))
    found = [Run(*(each + top for each in run)) for run in joined]
    ends = [Run(0, 0, 0, 0), *found, Run(len(old), len(old), len(new), len(new))]
    for index in range(1, len(ends) - 1):
        above, run, below = ends[index - 1 : index + 2]
        if run.start == run.end or run.at == run.to:
            ends[index] = _aligned(
                old, new, run, min(run.start - above.end, run.at - above.to), below.start - run.end
            )
    return ends[1:-1]


def count(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of removed and added lines."""
    return sum(run.end - run.start + run.to - run.at for run in runs(old, new))


def _joined(pairs: Iterable[tuple[int, int]], old: int, new: int) -> Iterator[Run]:
    last = (0, 0)
    for i, j in (*pairs, (old, new)):
        if (i, j) != last:
            yield Run(last[0], i, last[1], j)
        last = (i + 1, j + 1)


def _pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the lines that stay, as their numbers in both texts."""
    trail = _trail(old, new) if old and new else []
    if trail is None:
        for i, j, size in difflib.SequenceMatcher(None, old, new).get_matching_blocks():
            yield from ((i + step, j + step) for step in range(size))
        return
    found = []
    i, j = len(old), len(new)
    for depth in range(len(trail) - 1, 0, -1):
        ends = trail[depth]
        k = i - j
        before = k + 1 if _is_down(ends, depth, k) else k - 1
        x = ends[before]
        y = x - before
        while i > x and j > y:
            i, j = i - 1, j - 1
            found.append((i, j))
        i, j = x, y
    found += ((each, each) for each in range(min(i, j) - 1, -1, -1))
    yield from reversed(found)


def _is_down(ends: Mapping[int, int], depth: int, k: int) -> bool:
    return k == -depth or (k != depth and ends[k - 1] < ends[k + 1])


def _trail(old: Sequence[str], new: Sequence[str]) -> list[dict[int, int]] | None:
    """Return how far each diagonal reaches before each step of Myers's search; None if that takes too many steps."""
    ends = {1: 0}
    trail = []
    for depth in range(min(_MAX_CHANGED_LINES, len(old) + len(new)) + 1):
        trail.append(dict(ends))
        for k in range(-depth, depth + 1, 2):
            x = ends[k + 1] if _is_down(ends, depth, k) else ends[k - 1] + 1
            y = x - k
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            ends[k] = x
            if x >= len(old) and y >= len(new):
                return trail
    return None


def _aligned(old: Sequence[str], new: Sequence[str], run: Run, up: int, down: int) -> Run:
    """Move a pure insertion or deletion so that it starts where a statement does, if possible.

    It can move up by ``up`` lines and down by ``down`` lines.
    """
    text, first, last = (new, run.at, run.to) if run.start == run.end else (old, run.start, run.end)
    shifts = [0]
    while shifts[-1] > -up and text[first + shifts[-1] - 1] == text[last + shifts[-1] - 1]:
        shifts.append(shifts[-1] - 1)
    shift = 0
    while shift < down and text[first + shift] == text[last + shift]:
        shift += 1
        shifts.append(shift)
    chosen = min(shifts, key=lambda shift: (*_split_cost(text, first + shift, last + shift), abs(shift)))
    return Run(*(each + chosen for each in run))


def _split_cost(text: Sequence[str], first: int, last: int) -> tuple[int, int, int]:
    """Return a key that is small if a run of lines is a statement of its own."""
    lines = [line for line in text[first:last] if line.strip()]
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    inner = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    opens = 0 if not text[first].strip() or first == 0 or not text[first - 1].strip() else 1
    return (indent - inner, opens, 0 if lines and lines[0] == text[first] else 1)
