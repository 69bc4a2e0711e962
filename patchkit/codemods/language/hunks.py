"""Find the place of a diff's hunk in a text that has changed since.

If the hunk's lines occur exactly once as they are, that is the place. Otherwise each run of changed lines is searched
for by itself, ignoring white space and blank lines. Of several matches, the one with the most of the hunk's other
lines around it is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from patchkit.codemods.examination import SiteState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SIGNS = " +-"
_MIN_WORD_CHARACTERS = 3
"""A line with fewer letters and digits, such as a closing bracket, is too common to identify a place."""
_COMMON_WEIGHT = 0.25


class Change(NamedTuple):
    """A run of lines that are removed and added, with the unchanged lines above and below."""

    above: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    below: tuple[str, ...]


class HunkState(NamedTuple):
    """The state of a hunk in a text, the reason, and the text with the hunk applied if possible.

    ``first`` is the line, from 0, of the first change in that text.
    """

    state: SiteState
    reason: str = ""
    lines: tuple[str, ...] = ()
    first: int = 0


class _Cut(NamedTuple):
    """Lines ``start`` to ``end`` (exclusive), which other lines replace."""

    start: int
    end: int
    added: tuple[str, ...]


class _Place(NamedTuple):
    """A match among the non-blank lines: its score with the shares above and below, and the change of indentation."""

    score: float
    at: int
    above: float
    below: float
    shift: int


@dataclass(frozen=True)
class Hunk:
    """The lines of a hunk, each with its sign."""

    lines: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Hunk:
        """Return the hunk in a text. Raise ValueError if a line has no sign or nothing changes.

        An empty line counts as unchanged, since editors strip the space of its sign.
        """
        lines = tuple(line or " " for line in text.strip("\n").split("\n"))
        unsigned = next((line for line in lines if line[0] not in _SIGNS), None)
        if unsigned is not None:
            raise ValueError(f"a line does not begin with ` `, `+` or `-`: {unsigned!r}")
        if all(line[0] == " " for line in lines):
            raise ValueError("no line begins with `+` or `-`, so nothing changes")
        return cls(lines)

    @cached_property
    def old(self) -> tuple[str, ...]:
        """The lines before the change."""
        return tuple(line[1:] for line in self.lines if line[0] != "+")

    @cached_property
    def new(self) -> tuple[str, ...]:
        """The lines after the change."""
        return tuple(line[1:] for line in self.lines if line[0] != "-")

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Each run of changed lines, from top to bottom."""
        found, at = [], 0
        while at < len(self.lines):
            end = at
            while end < len(self.lines) and self.lines[end][0] != " ":
                end += 1
            if end > at:
                start, stop = at, end
                while start and self.lines[start - 1][0] == " ":
                    start -= 1
                while stop < len(self.lines) and self.lines[stop][0] == " ":
                    stop += 1
                run = self.lines[at:end]
                removed = tuple(line[1:] for line in run if line[0] == "-")
                added = tuple(line[1:] for line in run if line[0] == "+")
                around = (self.lines[start:at], self.lines[end:stop])
                above, below = (tuple(line[1:] for line in side) for side in around)
                found.append(Change(above, removed, added, below))
            at = max(end, at + 1)
        return tuple(found)

    def examine(self, lines: Sequence[str], is_passed_over: Callable[[str], bool]) -> HunkState:
        """Return the state of the hunk in a text; lines that ``is_passed_over`` accepts, such as notes, are ignored."""
        text = _Text(lines, is_passed_over)
        return self._as_it_is(text) or self._one_by_one(text)

    def _as_it_is(self, text: _Text) -> HunkState | None:
        before, after = text.runs(self.old), text.runs(self.new)
        if len(self.old) > len(self.new):
            # Where a change only removes lines, the remaining lines also occur before it.
            after = [
                at for at in after if all(_are_disjoint(each, self.old, at, self.new) for each in before)
            ]
        if any(map(str.strip, self.new)) and after:
            unreplaced = [
                at for at in before if all(_are_disjoint(at, self.old, each, self.new) for each in after)
            ]
            if not unreplaced:
                return HunkState(SiteState.PRESENT)
            return HunkState(SiteState.AMBIGUOUS, f"both {_quoted(self.old)} and its replacement are present")
        if len(before) > 1:
            return HunkState(SiteState.AMBIGUOUS, f"several places match, expected one: {_quoted(self.old)}")
        if not before or not self.old:
            return None
        cuts, at = [], before[0]
        for change in self._steps():
            at += change.above_count
            start = text.shown[at] if at < len(text.shown) else len(text.lines)
            end = text.shown[at + change.removed - 1] + 1 if change.removed else start
            cuts.append(_Cut(start, end, change.added))
            at += change.removed
        return text.with_cuts(cuts)

    def _steps(self) -> Iterator[_Step]:
        above = removed = 0
        added: list[str] = []
        for line in (*self.lines, " "):
            if line[0] == " ":
                if removed or added:
                    yield _Step(above, removed, tuple(added))
                    above, removed, added = 0, 0, []
                above += 1
            elif line[0] == "-":
                removed += 1
            else:
                added.append(line[1:])

    def _one_by_one(self, text: _Text) -> HunkState:
        cuts: list[_Cut] = []
        last = -1
        for change in self.changes:
            if not any(map(str.strip, (*change.removed, *change.added))):
                continue
            cut = text.place(change)
            if isinstance(cut, HunkState):
                if cut.state is SiteState.PRESENT:
                    continue
                return cut
            if cut.start < last:
                return HunkState(
                    SiteState.ABSENT,
                    f"{_quoted(change.removed or change.added)}: the lines are in a different order",
                )
            last = cut.end
            cuts.append(cut)
        return text.with_cuts(cuts) if cuts else HunkState(SiteState.PRESENT)


class _Step(NamedTuple):
    above_count: int
    removed: int
    added: tuple[str, ...]


def _are_disjoint(at: int, old: Sequence[str], other: int, new: Sequence[str]) -> bool:
    return at + len(old) <= other or other + len(new) <= at


def _quoted(lines: Sequence[str]) -> str:
    distinctive = [line.strip() for line in lines if _weight(line) == 1] or [line.strip() for line in lines]
    return f"`{next(filter(None, distinctive), '')}`"


def _key(line: str) -> str:
    return " ".join(line.split())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _weight(line: str) -> float:
    return (
        1
        if sum(map(str.isalnum, line)) >= _MIN_WORD_CHARACTERS and line.strip() not in _COMMON
        else _COMMON_WEIGHT
    )


_COMMON = frozenset(
    {"else:", "try:", "finally:", "return", "pass", "continue", "break", "return None", '"""', "{", "}"}
)


def _non_blank(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.strip()]


def _blank(lines: Sequence[str]) -> int:
    """Return the number of leading blank lines."""
    return next((index for index, line in enumerate(lines) if line.strip()), len(lines))


class _Text:
    """The lines of a text, and those of them that are compared."""

    def __init__(self, lines: Sequence[str], is_passed_over: Callable[[str], bool]) -> None:
        self.lines = tuple(lines)
        self.shown = [index for index, line in enumerate(lines) if not is_passed_over(line)]
        self.full = [index for index in self.shown if lines[index].strip()]
        self.keys = [_key(lines[index]) for index in self.full]

    def runs(self, wanted: Sequence[str]) -> list[int]:
        """Return the indices, among the compared lines, at which these lines occur exactly and in sequence."""
        if not wanted:
            return []
        lines, shown, first = self.lines, self.shown, wanted[0]
        return [
            at
            for at in range(len(shown) - len(wanted) + 1)
            if lines[shown[at]] == first
            and all(lines[shown[at + step]] == line for step, line in enumerate(wanted))
        ]

    def with_cuts(self, cuts: Sequence[_Cut]) -> HunkState:
        lines = list(self.lines)
        for start, end, added in sorted(cuts, reverse=True):
            # Ignored lines belong to other edits and are kept.
            shown = set(self.shown)
            kept = [self.lines[index] for index in range(start, end) if index not in shown]
            lines[start:end] = [*kept, *added]
        return HunkState(SiteState.READY, lines=tuple(lines), first=min(cut.start for cut in cuts))

    def place(self, change: Change) -> _Cut | HunkState:
        """Return the lines that a change replaces, or the state of the change if it replaces none."""
        removed, added = _non_blank(change.removed), _non_blank(change.added)
        before = self._best(removed, change, is_there=False)
        after = self._best(added, change, is_there=True)
        if (
            isinstance(after, _Place)
            and isinstance(before, _Place)
            and _overlap(before, removed, after, added)
        ):
            # Where a change only removes lines, the remaining lines also occur before it; where it only adds, vice
            # versa.
            if len(added) > len(removed):
                return HunkState(SiteState.PRESENT)
            after = None
        if isinstance(after, _Place) and (
            not isinstance(before, _Place) or _is_more_likely(after, before, removed, added)
        ):
            return HunkState(SiteState.PRESENT)
        if isinstance(before, HunkState) or before is None:
            return before or HunkState(SiteState.ABSENT, self._missing_reason(change))
        if isinstance(after, _Place) and after.score == before.score:
            return HunkState(
                SiteState.AMBIGUOUS,
                f"both {_quoted(change.removed or change.added)} and its replacement are present",
            )
        return self._cut(before, change)

    def _missing_reason(self, change: Change) -> str:
        if _non_blank(change.removed):
            return f"expected {_quoted(change.removed)}, which is missing"
        return f"expected {_quoted(change.above[::-1])} or {_quoted(change.below)} next to {_quoted(change.added)}"

    def _best(self, lines: Sequence[str], change: Change, *, is_there: bool) -> _Place | HunkState | None:
        """Return the one place with these lines and most of their context; None if there is none."""
        places = [
            place for at in self._indices(lines) if (place := self._scored(at, lines, change)) is not None
        ]
        weight = sum(map(_weight, lines))
        if not lines:
            # A gap is identified by both of its sides; by one side only if a line is to be added next to it.
            both = [place for place in places if place.above and place.below]
            places = both or (
                []
                if is_there or (change.removed and _non_blank(change.removed))
                else self._beside(places, change)
            )
        best = max((place.score for place in places), default=0.0)
        first = [place for place in places if place.score == best]
        if len(first) > 1:
            quoted = _quoted(lines or change.added or change.removed)
            return HunkState(SiteState.AMBIGUOUS, f"several places match, expected one: {quoted}")
        if not first or (best < _COMMON_WEIGHT and weight < 1 + is_there):
            return None
        return first[0]

    def _beside(self, places: Sequence[_Place], change: Change) -> list[_Place]:
        """Return the gaps below the nearest line above the change if that identifies them, else above the one below."""
        for side, lines in (("above", change.above[::-1]), ("below", change.below)):
            near = next(filter(str.strip, lines), "")
            candidates = [place for place in places if getattr(place, side)]
            if _weight(near) == 1 and candidates:
                return candidates
        return []

    def _indices(self, lines: Sequence[str]) -> Iterator[int]:
        keys = [_key(line) for line in lines]
        for at in range(len(self.keys) - len(keys) + 1):
            if self.keys[at : at + len(keys)] == keys:
                yield at

    def _shift(self, at: int, line: str) -> int:
        return _indent(self.lines[self.full[at]]) - _indent(line)

    def _scored(self, at: int, lines: Sequence[str], change: Change) -> _Place | None:
        shifts = {self._shift(at + step, line) for step, line in enumerate(lines)}
        if len(shifts) > 1:
            return None
        shift = next(iter(shifts), None)
        above, shift = self._around(range(at - 1, -1, -1), _non_blank(change.above)[::-1], shift)
        below, shift = self._around(range(at + len(lines), len(self.full)), _non_blank(change.below), shift)
        return _Place(above + below, at, above, below, shift or 0)

    def _around(self, indices: range, wanted: Sequence[str], shift: int | None) -> tuple[float, int | None]:
        score = 0.0
        for at, line in zip(indices, wanted, strict=False):
            moved = self._shift(at, line)
            if self.keys[at] != _key(line) or (shift is not None and moved != shift):
                break
            shift = moved
            score += _weight(line)
        return score, shift

    def _cut(self, place: _Place, change: Change) -> _Cut:
        removed = _non_blank(change.removed)
        if removed:
            start, end = self.full[place.at], self.full[place.at + len(removed) - 1] + 1
            start -= self._blanks(range(start - 1, -1, -1), _blank(change.removed))
            end += self._blanks(range(end, len(self.lines)), _blank(change.removed[::-1]))
        elif place.above or not place.below:
            start = self.full[place.at - 1] + 1
            start += self._blanks(range(start, len(self.lines)), _blank(change.above[::-1]))
            end = start + self._blanks(range(start, len(self.lines)), len(change.removed))
        else:
            end = self.full[place.at]
            end -= self._blanks(range(end - 1, -1, -1), _blank(change.below))
            start = end - self._blanks(range(end - 1, -1, -1), len(change.removed))
        return _Cut(start, end, tuple(_reindented(line, place.shift) for line in change.added))

    def _blanks(self, indices: range, most: int) -> int:
        """Return the number of leading blank lines among these, at most ``most``."""
        return next(
            (step for step, at in enumerate(indices) if step == most or self.lines[at].strip()),
            min(most, len(indices)),
        )


def _overlap(before: _Place, removed: Sequence[str], after: _Place, added: Sequence[str]) -> bool:
    """Return whether removed and added lines, of different numbers, overlap in the text."""
    are_disjoint = before.at + len(removed) <= after.at or after.at + len(added) <= before.at
    return bool(removed and added) and len(removed) != len(added) and not are_disjoint


def _is_more_likely(after: _Place, before: _Place, removed: Sequence[str], added: Sequence[str]) -> bool:
    """Return whether the added lines are more likely present already than still to be added."""
    if not removed and added:
        return after.score >= before.score
    return after.score > before.score


def _reindented(line: str, shift: int) -> str:
    if not line.strip() or not shift:
        return line
    return " " * shift + line if shift > 0 else line[min(-shift, _indent(line)) :]
