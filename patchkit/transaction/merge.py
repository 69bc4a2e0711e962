"""Undo changes in a file that was edited since, and keep the edits: a three-way merge by scopes and statements.

Blank lines, layout and line ends are ignored when a place is searched. It is a conflict if the place was edited,
exists twice, or is missing while part of the change is still there.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError
from patchkit.plan.marks import MARK
from patchkit.transaction.outline import Imported, outline_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.transaction.outline import Key, Name, Outline, Unit


class MergeResult(NamedTuple):
    """A text with the changes undone; ``proof`` is the same without imports that stay because other code uses them."""

    text: bytes | None
    proof: bytes | None


def merge(
    file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None, *, exact: bool = False
) -> MergeResult:
    """Make in ``ours`` each change from ``base`` to ``theirs``; None if the file does not exist.

    Raise ConflictError if one of the changes has no unambiguous place, or with ``exact`` if its place has other code.
    """
    if base in (ours, theirs) or ours == theirs:
        text = theirs if base == ours else ours
        return MergeResult(text, text)
    if base is None or ours is None or theirs is None:
        raise ConflictError(
            "the file, which patchkit created or deleted, was edited after apply",
            where=file,
            advice="move it elsewhere and revert again",
        )
    try:
        left, mine, was = outline_of(base), outline_of(ours), outline_of(theirs)
        left = _without_lost_signs(left, mine, was)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ConflictError(
            f"the file was edited after apply and is not valid Python ({error})",
            where=file,
            advice="fix it and revert again",
        ) from None
    proof, unused = _Merge(file, left, mine, was, exact=exact).made()
    used = frozenset(name for name in unused if _times(name, proof) > _times(name, theirs))
    return MergeResult(_Merge(file, left, mine, was, used, exact=exact).made()[0] if used else proof, proof)


def _without_lost_signs(base: Outline, ours: Outline, theirs: Outline) -> Outline:
    """Return the base without comments of patches that were removed or reworded while their code stayed."""
    lost: set[int] = set()
    for name, units in base.scopes.items():
        here, wanted = ours.scopes.get(name), theirs.scopes.get(name, [])
        if here is not None:
            kept = ours.signs(here).keys() | theirs.signs(wanted).keys()
            lost.update(
                line for text, lines in base.signs(units).items() if text not in kept for line in lines
            )
    return (
        outline_of(b"".join(line for at, line in enumerate(base.lines) if at not in lost)) if lost else base
    )


def _times(name: str, text: bytes) -> int:
    return len(re.findall(rb"\b" + re.escape(name.encode()) + rb"\b", text))


@dataclass
class _Edits:
    """Lines to delete and lines to insert, by line number."""

    dropped: set[int] = field(default_factory=set)
    added: dict[int, list[bytes]] = field(default_factory=dict)

    def made(self, lines: Sequence[bytes]) -> bytes:
        made = []
        for number in range(len(lines) + 1):
            made += self.added.get(number, [])
            made += [lines[number]] if number < len(lines) and number not in self.dropped else []
        return b"".join(made)


class _Change(NamedTuple):
    """Units ``start`` to ``end`` of a scope of the base, and the units of ``theirs`` that replace them."""

    scope: Name
    start: int
    end: int
    wanted_start: int
    wanted_end: int


class _Merge:
    """A merge of three outlines; imports of the names in ``keep`` stay."""

    def __init__(
        self,
        file: str,
        base: Outline,
        ours: Outline,
        theirs: Outline,
        keep: frozenset[str] = frozenset(),
        *,
        exact: bool = False,
    ) -> None:
        self._file = file
        self._exact = exact
        self._base, self._ours, self._theirs = base, ours, theirs
        self._keep = keep
        self._edits = _Edits()
        self._unimported: set[str] = set()
        self._settled: set[int] = set()
        ends = Counter(line[len(line.rstrip(b"\r\n")) :] for line in ours.lines)
        self._newline = max((end for end in ends if end), key=lambda end: ends[end], default=b"\n")

    def made(self) -> tuple[bytes, frozenset[str]]:
        """Return the merged text, and the names that it no longer imports."""
        for name, units in self._base.scopes.items():
            wanted = self._theirs.scopes.get(name)
            if wanted is not None:
                self._undo_in(name, units, wanted)
        return self._edits.made(self._ours.lines), frozenset(self._unimported)

    def _undo_in(self, name: Name, units: list[Unit], wanted: list[Unit]) -> None:
        keys, wanted_keys = _keys(units), _keys(wanted)
        codes = SequenceMatcher(None, keys, wanted_keys, autojunk=False).get_opcodes()
        changes = [
            _begun_at_sign(name, codes, at, units) for at, code in enumerate(codes) if code[0] != "equal"
        ]
        mine = self._ours.scopes.get(name)
        if mine is None or self._ours.times(name) != self._base.times(name):
            if changes:
                self._require_gone(name, changes)
            return
        for change in changes:
            self._undo(change, mine)

    def _require_gone(self, name: Name, changes: Sequence[_Change]) -> None:
        """Raise ConflictError unless a scope was removed together with the changes made in it."""
        dotted, times = ".".join(part for part, _ in name), self._ours.times(name)
        if times:
            raise self._conflict(
                0, f"{dotted} exists {times} times, and one of them was patched", "remove the others"
            )
        left = {unit.key for units in self._ours.scopes.values() for unit in units}
        fresh = self._ours.scopes.keys() - self._base.scopes.keys()
        is_renamed = self._exact and any(other[:-1] == name[:-1] for other in fresh)
        for change in changes:
            if is_renamed or any(key in left for key in self._brought(change)):
                raise self._conflict(
                    0, f"{dotted}, which was patched, was renamed or moved", "give it its name back"
                )

    def _brought(self, change: _Change) -> list[Key]:
        """Return what a change added to its scope."""
        keys = Counter(_keys(self._base.scopes[change.scope][change.start : change.end]))
        keys.subtract(_keys(self._theirs.scopes[change.scope][change.wanted_start : change.wanted_end]))
        return [key for key, times in keys.items() if times > 0]

    def _undo(self, change: _Change, mine: list[Unit]) -> None:
        units = self._base.scopes[change.scope]
        found = units[change.start : change.end]
        wanted = self._theirs.scopes[change.scope][change.wanted_start : change.wanted_end]
        if not found:
            self._put_in(change, wanted, mine)
            return
        at = self._place(units, change, mine)
        if at is None:
            parts = [] if wanted else _parts(change, found)
            if len(parts) > 1:
                for part in parts:
                    self._undo(part, mine)
            elif self._are_imports([*found, *wanted]):
                self._undo_imports(found, wanted, mine)
            else:
                self._require_undone(change, wanted, mine)
            return
        for theirs, unit in zip(mine[at:], found, strict=False):
            if self._ours.deep(theirs) != self._base.deep(unit):
                raise self._edited(theirs.start)
        self._replace(change, at, mine)

    # Find a change

    def _place(self, units: list[Unit], change: _Change, mine: list[Unit]) -> int | None:
        """Return the index in ``mine`` of the units of a change, or None if they are not together."""
        size = change.end - change.start
        wanted = _keys(units[change.start : change.end])
        places = _occurrences(wanted, _keys(mine))
        if not places:
            return None
        first = _occurrences(wanted, _keys(units))
        if len(places) == len(first):
            place = places[first.index(change.start)]
        else:
            around = [self._context(units, change.start, size, mine, place) for place in places]
            best = [
                place
                for place, (left, right) in zip(places, around, strict=True)
                if all(left >= other[0] and right >= other[1] for other in around)
            ]
            if len(best) != 1:
                lines = ", ".join(str(mine[place].start + 1) for place in places)
                raise self._conflict(
                    mine[places[0]].start,
                    f"the patched code is there {len(places)} times (lines {lines})",
                    "remove the copies",
                )
            place = best[0]
        found = units[change.start : change.end]
        named = any(unit.scope is not None or _is_sign(unit) for unit in found)
        if not named and self._context(units, change.start, size, mine, place) == (0, 0):
            # A formatter sorts imports among others.
            if self._are_imports(found):
                return None
            raise self._edited(mine[place].start)
        return place

    @staticmethod
    def _context(units: list[Unit], start: int, size: int, mine: list[Unit], place: int) -> tuple[int, int]:
        """Return how many units before and after a place are the original ones; an end of the scope is one."""
        left = _run(_keys(units[:start])[::-1], _keys(mine[:place])[::-1])
        right = _run(_keys(units[start + size :]), _keys(mine[place + size :]))
        return left, right

    def _require_undone(self, change: _Change, wanted: list[Unit], mine: list[Unit]) -> None:
        """Raise ConflictError unless the change was undone by hand."""
        here, before = Counter(_keys(mine)), Counter(_keys(self._theirs.scopes[change.scope]))
        left = any(here[key] > before[key] for key in self._brought(change))
        back = not wanted or bool(_occurrences(_keys(wanted), _keys(mine)))
        if left or not back or (self._exact and not wanted and not self._is_closed(change, mine)):
            raise self._edited(self._near(change, mine))

    def _is_closed(self, change: _Change, mine: list[Unit]) -> bool:
        """Return whether the units on both sides of a change are now adjacent."""
        units = self._base.scopes[change.scope]
        sides = _key_at(units, change.start - 1), _key_at(units, change.end)
        return any(sides == (_key_at(mine, at - 1), _key_at(mine, at)) for at in range(len(mine) + 1))

    def _near(self, change: _Change, mine: list[Unit]) -> int:
        """Return the line after the last remaining unit before a change."""
        units = self._base.scopes[change.scope]
        blocks = SequenceMatcher(None, _keys(units), _keys(mine), autojunk=False).get_matching_blocks()
        pairs = [(start + n, other + n) for start, other, size in blocks for n in range(size)]
        place = max((mine_at + 1 for at, mine_at in pairs if at < change.start), default=0)
        return mine[min(place, len(mine) - 1)].start if mine else 0

    # Undo it

    def _replace(self, change: _Change, at: int, mine: list[Unit]) -> None:
        units, theirs = self._base.scopes[change.scope], self._theirs.scopes[change.scope]
        size = change.end - change.start
        first, last = mine[at], mine[at + size - 1]
        if (at and mine[at - 1].end > first.start) or (
            at + size < len(mine) and mine[at + size].start < last.end
        ):
            raise self._conflict(first.start, "the line has both patchkit's code and other code", "break it")
        wanted = theirs[change.wanted_start : change.wanted_end]
        old_first, old_last = units[change.start], units[change.end - 1]
        if wanted and self._ours.indent(first) != self._base.indent(old_first):
            raise self._edited(first.start)
        before, behind = self._ours.gap_before(first), self._ours.gap_after(last)
        was_before, was_behind = self._base.gap_before(old_first), self._base.gap_after(old_last)
        if wanted:
            lines = self._theirs.lines[wanted[0].start : wanted[-1].end]
            if self._settle(before):
                self._stretch(before, len(self._theirs.gap_before(wanted[0])) - len(was_before))
            self._add(first.start, lines)
            if self._settle(behind):
                self._stretch(behind, len(self._theirs.gap_after(wanted[-1])) - len(was_behind))
        else:
            same = _key_at(mine, at - 1) == _key_at(units, change.start - 1) and _key_at(
                mine, at + size
            ) == _key_at(units, change.end)
            gap = self._closed_gap(theirs, change)
            by = gap - len(was_before) - len(was_behind)
            by -= sum(
                gap - len(was)
                for own, was in ((before, was_before), (behind, was_behind))
                if not self._settle(own)
            )
            is_last = behind.stop == len(self._ours.lines)
            least = 0 if same or is_last else max(len(before), len(behind))
            if not same and _is_header(units, change.start - 1) and _is_header(mine, at - 1):
                # What a patch put first in a block is apart from what follows, not that from the header.
                least = gap + len(before) - len(was_before)
                by = least - len(before) - len(behind)
            self._stretch(before, max(by, least - len(before) - len(behind)), behind)
        self._edits.dropped.update(range(first.start, last.end))
        stay = {name for unit in wanted for name in self._theirs.imported(unit)}
        for unit in mine[at : at + size]:
            bound = {_bound(name) for name in self._ours.imported(unit) - stay}
            self._unimported |= bound
            if bound & self._keep:
                self._edits.dropped.difference_update(range(unit.start, unit.end))

    def _closed_gap(self, theirs: list[Unit], change: _Change) -> int:
        """Return the number of blank lines in place of units that are removed."""
        if change.wanted_start < len(theirs):
            return len(self._theirs.gap_before(theirs[change.wanted_start]))
        return len(self._theirs.gap_after(theirs[-1])) if theirs else 0

    def _settle(self, gap: range) -> bool:
        """Return whether a gap is unchanged; a change in another scope may end at the same gap."""
        fresh = gap.start not in self._settled
        self._settled.add(gap.start)
        return fresh

    def _stretch(self, gap: range, by: int, more: range = range(0)) -> None:
        """Insert ``by`` blank lines into a gap, or delete as many of them as there are."""
        if by > 0:
            self._edits.added.setdefault(gap.start, []).extend([self._newline] * by)
            return
        left = [line for line in (*more, *gap) if line not in self._edits.dropped]
        self._edits.dropped.update(left[: -by if by else 0])

    def _add(self, at: int, lines: Sequence[bytes]) -> None:
        ended = [line.rstrip(b"\r\n") + self._newline for line in lines]
        self._edits.added.setdefault(at, []).extend(ended)

    def _put_in(self, change: _Change, wanted: list[Unit], mine: list[Unit]) -> None:
        """Insert what a patch deleted, between the two units that were around it."""
        units = self._base.scopes[change.scope]
        theirs = self._theirs.scopes[change.scope]
        if len(_occurrences(_keys(wanted), _keys(mine))) >= len(_occurrences(_keys(wanted), _keys(theirs))):
            return
        left, right = _key_at(units, change.start - 1), _key_at(units, change.start)
        places = [
            at for at in range(len(mine) + 1) if (_key_at(mine, at - 1), _key_at(mine, at)) == (left, right)
        ]
        if len(places) != 1:
            raise self._edited(self._near(change, mine))
        at = places[0]
        lines = self._theirs.lines[wanted[0].start : wanted[-1].end]
        before, behind = self._theirs.gap_before(wanted[0]), self._theirs.gap_after(wanted[-1])
        if at < len(mine):
            was = self._base.gap_before(units[change.start])
            gap = self._ours.gap_before(mine[at])
            if self._settle(gap):
                self._stretch(gap, len(before) - len(was))
            self._add(mine[at].start, [*lines, *([b""] * len(behind))])
        else:
            self._add(mine[at - 1].end, [*([b""] * len(before)), *lines])

    # Imports, which formatters sort and join

    @staticmethod
    def _are_imports(units: Sequence[Unit]) -> bool:
        return all(unit.is_import or unit.is_comment for unit in units) and any(
            unit.is_import for unit in units
        )

    def _undo_imports(self, found: list[Unit], wanted: list[Unit], mine: list[Unit]) -> None:
        brought = frozenset[Imported]().union(*(self._base.imported(unit) for unit in found))
        back = frozenset[Imported]().union(*(self._theirs.imported(unit) for unit in wanted))
        here = [unit for unit in mine if unit.is_import]
        had = frozenset[Imported]().union(*(self._ours.imported(unit) for unit in here))
        if back - brought - had:
            raise self._edited(here[0].start if here else 0)
        for unit in found:
            same = [each for each in mine if each.key == unit.key and unit.is_comment]
            if unit.is_comment and len(same) == 1:
                self._edits.dropped.add(same[0].start)
        going = frozenset(name for name in brought - back if _bound(name) not in self._keep)
        self._unimported |= {_bound(name) for name in brought - back}
        for name in sorted(going, key=repr):
            holders = [unit for unit in here if name in self._ours.imported(unit)]
            if len(holders) > 1:
                raise self._conflict(
                    holders[0].start, f"{name[2]} is imported {len(holders)} times", "remove the copies"
                )
        for unit in here:
            if self._ours.imported(unit) & going:
                self._drop_names(unit, going)

    def _drop_names(self, unit: Unit, going: frozenset[Imported]) -> None:
        """Remove names from an import, or the import with its last name."""
        names = self._ours.names(unit)
        staying = [name for name in names if name not in going]
        self._edits.dropped.update(range(unit.start, unit.end))
        if not staying:
            return
        if unit.comments:
            raise self._edited(unit.start)
        level, module = staying[0][0], staying[0][1]
        said = ", ".join(name if name == bound else f"{name} as {bound}" for _, _, name, bound in staying)
        start = f"from {'.' * level}{module} import " if level or module else "import "
        self._add(unit.start, [self._ours.indent(unit) + f"{start}{said}".encode()])

    # Errors

    def _edited(self, line: int) -> ConflictError:
        return self._conflict(
            line,
            "code that patchkit wrote was edited after apply",
            "restore these lines as apply wrote them, use the version of patchkit that applied them, or, if the whole "
            "file was replaced, restore it with git,",
        )

    def _conflict(self, line: int, what: str, advice: str) -> ConflictError:
        return ConflictError(what, where=f"{self._file}:{line + 1}", advice=f"{advice} and revert again")


def _begun_at_sign(
    name: Name, codes: Sequence[tuple[str, int, int, int, int]], at: int, units: list[Unit]
) -> _Change:
    """Return a change, moved to where it begins with a patch's comment.

    Of code that is there twice, a comparison may take the first, which the patch found, for what the patch added.
    """
    _, start, end, first, behind = codes[at]
    change = _Change(name, start, end, first, behind)
    if first != behind:
        return change
    keys = _keys(units)
    least = codes[at - 1][1] if at else start
    most = codes[at + 1][2] if at + 1 < len(codes) else end
    for step in (-1, 1):
        by = 0
        while least <= start + by and end + by <= most:
            if _is_sign(units[start + by]):
                return _Change(name, start + by, end + by, first + by, behind + by)
            left, right = (start + by - 1, end + by - 1) if step < 0 else (start + by, end + by)
            if left < least or right >= most or keys[left] != keys[right]:
                break
            by += step
    return change


def _parts(change: _Change, found: Sequence[Unit]) -> list[_Change]:
    """Split a change after each definition."""
    cuts = [at + 1 for at, unit in enumerate(found) if unit.scope is not None and at + 1 < len(found)]
    ends = [change.start, *(change.start + cut for cut in cuts), change.end]
    return [change._replace(start=start, end=end) for start, end in pairwise(ends)]


def _keys(units: Sequence[Unit]) -> list[Key]:
    return [unit.key for unit in units]


def _key_at(units: Sequence[Unit], index: int) -> Key | None:
    return units[index].key if 0 <= index < len(units) else None


def _occurrences(wanted: list[Key], keys: list[Key]) -> list[int]:
    size = len(wanted)
    return [at for at in range(len(keys) - size + 1) if keys[at : at + size] == wanted]


def _run(left: list[Key], right: list[Key]) -> int:
    """Return the length of the common start of two lists, one more if both end there."""
    length = next(
        (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    return length + (length == len(left) == len(right))


def _is_header(units: Sequence[Unit], index: int) -> bool:
    return index >= 0 and units[index].key[0] == "header"


def _is_sign(unit: Unit) -> bool:
    return unit.is_comment and str(unit.key[1]).startswith(MARK)


def _bound(name: Imported) -> str:
    """Return the name that an import binds."""
    return name[3].partition(".")[0]
