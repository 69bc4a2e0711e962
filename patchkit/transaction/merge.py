"""Undo changes in a file that was edited since, and keep the edits: a three-way merge by scopes and statements.

Blank lines, layout and line ends are ignored when a place is searched. It is a conflict if the place was edited,
exists twice, or is missing although part of the change remains.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError
from patchkit.plan.comments import PREFIX
from patchkit.transaction.outline import Imported, outline_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.transaction.outline import Key, Name, Outline, Unit


class MergeResult(NamedTuple):
    """A text with the changes undone.

    ``stripped`` is the same without the imports that remain because other code uses them.
    """

    text: bytes | None
    stripped: bytes | None


def merge(
    file: str, base: bytes | None, ours: bytes | None, theirs: bytes | None, *, exact: bool = False
) -> MergeResult:
    """Make in ``ours`` each change from ``base`` to ``theirs``; None if the file does not exist.

    Raise ConflictError if one of the changes has no unambiguous place, or with ``exact`` if its place has other code.
    """
    if base in (ours, theirs) or ours == theirs:
        text = theirs if base == ours else ours
        return MergeResult(text, text)
    if theirs is None and ours is not None and base is not None and _is_equal_but_line_ends(base, ours):
        return MergeResult(None, None)
    if base is None or ours is None or theirs is None:
        raise ConflictError(
            "the file, which patchkit created or deleted, was edited after apply",
            where=file,
            advice="move it elsewhere and revert again",
        )
    try:
        base_outline, our_outline, their_outline = outline_of(base), outline_of(ours), outline_of(theirs)
        base_outline = _without_removed_comments(base_outline, our_outline, their_outline)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ConflictError(
            f"the file was edited after apply and is not valid Python ({error})",
            where=file,
            advice="fix it and revert again",
        ) from None
    stripped, removed_names = _Merge(file, base_outline, our_outline, their_outline, exact=exact).merged()
    used_names = frozenset(
        name for name in removed_names if _count_word(name, stripped) > _count_word(name, theirs)
    )
    if not used_names:
        return MergeResult(stripped, stripped)
    text, _ = _Merge(file, base_outline, our_outline, their_outline, used_names, exact=exact).merged()
    return MergeResult(text, stripped)


def _is_equal_but_line_ends(base: bytes, ours: bytes) -> bool:
    """Return whether two texts differ at most in their line ends, which git converts as it is configured."""
    return base.replace(b"\r\n", b"\n") == ours.replace(b"\r\n", b"\n")


def _without_removed_comments(base: Outline, ours: Outline, theirs: Outline) -> Outline:
    """Return the base without comments of patches that were removed or reworded although their code was not."""
    removed: set[int] = set()
    for name, units in base.scopes.items():
        our_units, their_units = ours.scopes.get(name), theirs.scopes.get(name, [])
        if our_units is not None:
            remaining = ours.patch_comments(our_units).keys() | theirs.patch_comments(their_units).keys()
            removed.update(
                line
                for text, lines in base.patch_comments(units).items()
                if text not in remaining
                for line in lines
            )
    if not removed:
        return base
    return outline_of(b"".join(line for at, line in enumerate(base.lines) if at not in removed))


def _count_word(name: str, text: bytes) -> int:
    return len(re.findall(rb"\b" + re.escape(name.encode()) + rb"\b", text))


@dataclass
class _Edits:
    """Lines to delete and lines to insert, by line number."""

    deleted: set[int] = field(default_factory=set)
    inserted: dict[int, list[bytes]] = field(default_factory=dict)

    def apply(self, lines: Sequence[bytes], newline: bytes) -> bytes:
        text: list[bytes] = []
        for number in range(len(lines) + 1):
            text += self.inserted.get(number, [])
            text += [lines[number]] if number < len(lines) and number not in self.deleted else []
        # The last line may have no end.
        return b"".join([*(line if _is_ended([line]) else line + newline for line in text[:-1]), *text[-1:]])


def _is_ended(lines: Sequence[bytes]) -> bool:
    """Return whether the last line has an end."""
    return not lines or lines[-1].endswith((b"\r", b"\n"))


class _Change(NamedTuple):
    """Units ``start`` to ``end`` of a scope of the base, and the units of ``theirs`` that replace them."""

    scope: Name
    start: int
    end: int
    their_start: int
    their_end: int


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
        self._removed_imports: set[str] = set()
        self._resized_gaps: set[int] = set()
        ends = Counter(line[len(line.rstrip(b"\r\n")) :] for line in ours.lines)
        self._newline = max((end for end in ends if end), key=lambda end: ends[end], default=b"\n")

    def merged(self) -> tuple[bytes, frozenset[str]]:
        """Return the merged text, and the names that it no longer imports."""
        for name, base_units in self._base.scopes.items():
            their_units = self._theirs.scopes.get(name)
            if their_units is not None:
                self._undo_scope(name, base_units, their_units)
        text = self._edits.apply(self._ours.lines, self._newline)
        base, ours, theirs = (_is_ended(outline.lines) for outline in (self._base, self._ours, self._theirs))
        is_to_end = theirs if ours == base else ours
        if text and _is_ended([text]) is not is_to_end:
            text = text + self._newline if is_to_end else text.removesuffix(b"\n").removesuffix(b"\r")
        return text, frozenset(self._removed_imports)

    def _undo_scope(self, name: Name, base_units: list[Unit], their_units: list[Unit]) -> None:
        base_keys, their_keys = _keys(base_units), _keys(their_units)
        codes = SequenceMatcher(None, base_keys, their_keys, autojunk=False).get_opcodes()
        changes = [
            _aligned_to_comment(name, codes, at, base_units)
            for at, code in enumerate(codes)
            if code[0] != "equal"
        ]
        our_units = self._ours.scopes.get(name)
        if our_units is None or self._ours.count(name) != self._base.count(name):
            if changes:
                self._require_removed(name, changes)
            return
        for change in changes:
            self._undo(change, our_units)

    def _require_removed(self, name: Name, changes: Sequence[_Change]) -> None:
        """Raise ConflictError unless a scope was removed together with the changes made in it."""
        dotted, count = ".".join(part for part, _ in name), self._ours.count(name)
        if count:
            raise self._conflict(
                0, f"{dotted} exists {count} times, and one of them was patched", "remove the others"
            )
        remaining = {unit.key for units in self._ours.scopes.values() for unit in units}
        new_scopes = self._ours.scopes.keys() - self._base.scopes.keys()
        is_renamed = self._exact and any(other[:-1] == name[:-1] for other in new_scopes)
        for change in changes:
            if is_renamed or any(key in remaining for key in self._added_keys(change)):
                raise self._conflict(
                    0, f"{dotted}, which was patched, was renamed or moved", "restore its name"
                )

    def _added_keys(self, change: _Change) -> list[Key]:
        """Return what a change added to its scope."""
        keys = Counter(_keys(self._base.scopes[change.scope][change.start : change.end]))
        keys.subtract(_keys(self._theirs.scopes[change.scope][change.their_start : change.their_end]))
        return [key for key, count in keys.items() if count > 0]

    def _undo(self, change: _Change, our_units: list[Unit]) -> None:
        base_scope = self._base.scopes[change.scope]
        base_units = base_scope[change.start : change.end]
        their_units = self._theirs.scopes[change.scope][change.their_start : change.their_end]
        if not base_units:
            self._reinsert(change, their_units, our_units)
            return
        index = self._locate(base_scope, change, our_units)
        if index is None:
            parts = [] if their_units else _parts(change, base_units)
            if len(parts) > 1:
                for part in parts:
                    self._undo(part, our_units)
            elif self._are_imports([*base_units, *their_units]):
                self._undo_imports(base_units, their_units, our_units)
            else:
                self._require_undone(change, their_units, our_units)
            return
        for our_unit, base_unit in zip(our_units[index:], base_units, strict=False):
            if self._ours.full_key(our_unit) != self._base.full_key(base_unit):
                raise self._edited(our_unit.start)
        self._replace(change, index, our_units)

    # Find a change

    def _locate(self, base_scope: list[Unit], change: _Change, our_units: list[Unit]) -> int | None:
        """Return the index in ``our_units`` of the units of a change, or None if they are not together."""
        size = change.end - change.start
        keys = _keys(base_scope[change.start : change.end])
        places = _occurrences(keys, _keys(our_units))
        if not places:
            return None
        base_places = _occurrences(keys, _keys(base_scope))
        if len(places) == len(base_places):
            place = places[base_places.index(change.start)]
        else:
            around = [self._context(base_scope, change.start, size, our_units, place) for place in places]
            best = [
                place
                for place, (before, after) in zip(places, around, strict=True)
                if all(before >= other[0] and after >= other[1] for other in around)
            ]
            if len(best) != 1:
                lines = ", ".join(str(our_units[place].start + 1) for place in places)
                raise self._conflict(
                    our_units[places[0]].start,
                    f"the patched code occurs {len(places)} times (lines {lines})",
                    "remove the copies",
                )
            place = best[0]
        base_units = base_scope[change.start : change.end]
        is_named = any(unit.scope is not None or _is_patch_comment(unit) for unit in base_units)
        if not is_named and self._context(base_scope, change.start, size, our_units, place) == (0, 0):
            # A formatter may have sorted the imports.
            if self._are_imports(base_units):
                return None
            raise self._edited(our_units[place].start)
        return place

    @staticmethod
    def _context(
        base_scope: list[Unit], start: int, size: int, our_units: list[Unit], place: int
    ) -> tuple[int, int]:
        """Return how many units before and after a place match the base; the end of the scope counts as one."""
        before = _common_prefix(_keys(base_scope[:start])[::-1], _keys(our_units[:place])[::-1])
        after = _common_prefix(_keys(base_scope[start + size :]), _keys(our_units[place + size :]))
        return before, after

    def _require_undone(self, change: _Change, their_units: list[Unit], our_units: list[Unit]) -> None:
        """Raise ConflictError unless the change was undone by hand."""
        our_keys, their_keys = Counter(_keys(our_units)), Counter(_keys(self._theirs.scopes[change.scope]))
        is_remaining = any(our_keys[key] > their_keys[key] for key in self._added_keys(change))
        is_restored = not their_units or bool(_occurrences(_keys(their_units), _keys(our_units)))
        if (
            is_remaining
            or not is_restored
            or (self._exact and not their_units and not self._is_adjacent(change, our_units))
        ):
            raise self._edited(self._nearby_line(change, our_units))

    def _is_adjacent(self, change: _Change, our_units: list[Unit]) -> bool:
        """Return whether the units on both sides of a change are now adjacent."""
        base_scope = self._base.scopes[change.scope]
        sides = _key_at(base_scope, change.start - 1), _key_at(base_scope, change.end)
        return any(
            sides == (_key_at(our_units, at - 1), _key_at(our_units, at)) for at in range(len(our_units) + 1)
        )

    def _nearby_line(self, change: _Change, our_units: list[Unit]) -> int:
        """Return the line after the last remaining unit before a change."""
        base_scope = self._base.scopes[change.scope]
        blocks = SequenceMatcher(
            None, _keys(base_scope), _keys(our_units), autojunk=False
        ).get_matching_blocks()
        pairs = [(start + n, other + n) for start, other, size in blocks for n in range(size)]
        place = max((our_index + 1 for index, our_index in pairs if index < change.start), default=0)
        return our_units[min(place, len(our_units) - 1)].start if our_units else 0

    # Undo it

    def _replace(self, change: _Change, at: int, our_units: list[Unit]) -> None:
        base_scope, their_scope = self._base.scopes[change.scope], self._theirs.scopes[change.scope]
        size = change.end - change.start
        first, last = our_units[at], our_units[at + size - 1]
        if (at and our_units[at - 1].end > first.start) or (
            at + size < len(our_units) and our_units[at + size].start < last.end
        ):
            raise self._conflict(first.start, "the line has both patchkit's code and other code", "split it")
        their_units = their_scope[change.their_start : change.their_end]
        base_first, base_last = base_scope[change.start], base_scope[change.end - 1]
        if their_units and self._ours.indent(first) != self._base.indent(base_first):
            raise self._edited(first.start)
        gap_above, gap_below = self._ours.gap_before(first), self._ours.gap_after(last)
        base_gap_above, base_gap_below = self._base.gap_before(base_first), self._base.gap_after(base_last)
        if their_units:
            lines = self._theirs.lines[their_units[0].start : their_units[-1].end]
            if self._claim_gap(gap_above):
                self._resize_gap(
                    gap_above, len(self._theirs.gap_before(their_units[0])) - len(base_gap_above)
                )
            self._insert(first.start, lines)
            if self._claim_gap(gap_below):
                self._resize_gap(
                    gap_below, len(self._theirs.gap_after(their_units[-1])) - len(base_gap_below)
                )
        else:
            same_neighbours = _key_at(our_units, at - 1) == _key_at(base_scope, change.start - 1) and _key_at(
                our_units, at + size
            ) == _key_at(base_scope, change.end)
            gap = self._gap_after_removal(their_scope, change)
            lines_added = gap - len(base_gap_above) - len(base_gap_below)
            lines_added -= sum(
                gap - len(base_gap)
                for our_gap, base_gap in ((gap_above, base_gap_above), (gap_below, base_gap_below))
                if not self._claim_gap(our_gap)
            )
            is_last = gap_below.stop == len(self._ours.lines)
            minimum = 0 if same_neighbours or is_last else max(len(gap_above), len(gap_below))
            if (
                not same_neighbours
                and _is_header(base_scope, change.start - 1)
                and _is_header(our_units, at - 1)
            ):
                # Code that a patch inserts first in a block has the gap below it, not above it.
                minimum = gap + len(gap_above) - len(base_gap_above)
                lines_added = minimum - len(gap_above) - len(gap_below)
            self._resize_gap(
                gap_above, max(lines_added, minimum - len(gap_above) - len(gap_below)), gap_below
            )
        self._edits.deleted.update(range(first.start, last.end))
        kept_names = {name for unit in their_units for name in self._theirs.imported(unit)}
        for unit in our_units[at : at + size]:
            names = {_bound_name(name) for name in self._ours.imported(unit) - kept_names}
            self._removed_imports |= names
            if names & self._keep:
                self._edits.deleted.difference_update(range(unit.start, unit.end))

    def _gap_after_removal(self, their_scope: list[Unit], change: _Change) -> int:
        """Return the number of blank lines in place of units that are removed."""
        if change.their_start < len(their_scope):
            return len(self._theirs.gap_before(their_scope[change.their_start]))
        return len(self._theirs.gap_after(their_scope[-1])) if their_scope else 0

    def _claim_gap(self, gap: range) -> bool:
        """Return whether no other change, which may be in another scope, has resized a gap; this one may then."""
        is_first = gap.start not in self._resized_gaps
        self._resized_gaps.add(gap.start)
        return is_first

    def _resize_gap(self, gap: range, lines_added: int, more: range = range(0)) -> None:
        """Insert ``lines_added`` blank lines into a gap, or delete as many of them as there are."""
        if lines_added > 0:
            self._edits.inserted.setdefault(gap.start, []).extend([self._newline] * lines_added)
            return
        remaining = [line for line in (*more, *gap) if line not in self._edits.deleted]
        self._edits.deleted.update(remaining[: -lines_added if lines_added else 0])

    def _insert(self, at: int, lines: Sequence[bytes]) -> None:
        ended = [line.rstrip(b"\r\n") + self._newline for line in lines]
        self._edits.inserted.setdefault(at, []).extend(ended)

    def _reinsert(self, change: _Change, their_units: list[Unit], our_units: list[Unit]) -> None:
        """Insert what a patch deleted, between the two units that surrounded it."""
        base_scope = self._base.scopes[change.scope]
        their_scope = self._theirs.scopes[change.scope]
        if len(_occurrences(_keys(their_units), _keys(our_units))) >= len(
            _occurrences(_keys(their_units), _keys(their_scope))
        ):
            return
        left, right = _key_at(base_scope, change.start - 1), _key_at(base_scope, change.start)
        places = [
            at
            for at in range(len(our_units) + 1)
            if (_key_at(our_units, at - 1), _key_at(our_units, at)) == (left, right)
        ]
        if len(places) != 1:
            raise self._edited(self._nearby_line(change, our_units))
        at = places[0]
        lines = self._theirs.lines[their_units[0].start : their_units[-1].end]
        gap_above, gap_below = (
            self._theirs.gap_before(their_units[0]),
            self._theirs.gap_after(their_units[-1]),
        )
        if at < len(our_units):
            base_gap = self._base.gap_before(base_scope[change.start])
            gap = self._ours.gap_before(our_units[at])
            if self._claim_gap(gap):
                self._resize_gap(gap, len(gap_above) - len(base_gap))
            self._insert(our_units[at].start, [*lines, *([b""] * len(gap_below))])
        else:
            self._insert(our_units[at - 1].end, [*([b""] * len(gap_above)), *lines])

    # Imports, which formatters sort and join

    @staticmethod
    def _are_imports(units: Sequence[Unit]) -> bool:
        return all(unit.is_import or unit.is_comment for unit in units) and any(
            unit.is_import for unit in units
        )

    def _undo_imports(self, base_units: list[Unit], their_units: list[Unit], our_units: list[Unit]) -> None:
        base_names = frozenset[Imported]().union(*(self._base.imported(unit) for unit in base_units))
        their_names = frozenset[Imported]().union(*(self._theirs.imported(unit) for unit in their_units))
        our_imports = [unit for unit in our_units if unit.is_import]
        our_names = frozenset[Imported]().union(*(self._ours.imported(unit) for unit in our_imports))
        if their_names - base_names - our_names:
            raise self._edited(our_imports[0].start if our_imports else 0)
        for unit in base_units:
            copies = [other for other in our_units if other.key == unit.key and unit.is_comment]
            if unit.is_comment and len(copies) == 1:
                self._edits.deleted.add(copies[0].start)
        removed = frozenset(name for name in base_names - their_names if _bound_name(name) not in self._keep)
        self._removed_imports |= {_bound_name(name) for name in base_names - their_names}
        for name in sorted(removed, key=repr):
            imports = [unit for unit in our_imports if name in self._ours.imported(unit)]
            if len(imports) > 1:
                raise self._conflict(
                    imports[0].start, f"{name[2]} is imported {len(imports)} times", "remove the copies"
                )
        for unit in our_imports:
            if self._ours.imported(unit) & removed:
                self._remove_names(unit, removed)

    def _remove_names(self, unit: Unit, removed: frozenset[Imported]) -> None:
        """Remove names from an import, or the import with its last name."""
        names = self._ours.imported_names(unit)
        remaining = [name for name in names if name not in removed]
        self._edits.deleted.update(range(unit.start, unit.end))
        if not remaining:
            return
        if unit.comments:
            raise self._edited(unit.start)
        level, module = remaining[0][0], remaining[0][1]
        imported = ", ".join(
            name if name == bound else f"{name} as {bound}" for _, _, name, bound in remaining
        )
        start = f"from {'.' * level}{module} import " if level or module else "import "
        self._insert(unit.start, [self._ours.indent(unit) + f"{start}{imported}".encode()])

    # Errors

    def _edited(self, line: int) -> ConflictError:
        return self._conflict(
            line,
            "code that patchkit wrote was edited after apply",
            "take your change of these lines back, for example with git restore -p, use the version of patchkit that "
            "applied them, or, if the whole file was replaced, restore it with git,",
        )

    def _conflict(self, line: int, what: str, advice: str) -> ConflictError:
        return ConflictError(what, where=f"{self._file}:{line + 1}", advice=f"{advice} and revert again")


def _aligned_to_comment(
    name: Name, codes: Sequence[tuple[str, int, int, int, int]], at: int, units: list[Unit]
) -> _Change:
    """Return a change, moved to where it begins with a patch's comment.

    If code occurs twice, a comparison may match the copy that the patch added, and report the original as added.
    """
    _, start, end, their_start, their_end = codes[at]
    change = _Change(name, start, end, their_start, their_end)
    if their_start != their_end:
        return change
    keys = _keys(units)
    lower = codes[at - 1][1] if at else start
    upper = codes[at + 1][2] if at + 1 < len(codes) else end
    for step in (-1, 1):
        shift = 0
        while lower <= start + shift and end + shift <= upper:
            if _is_patch_comment(units[start + shift]):
                return _Change(name, start + shift, end + shift, their_start + shift, their_end + shift)
            left, right = (start + shift - 1, end + shift - 1) if step < 0 else (start + shift, end + shift)
            if left < lower or right >= upper or keys[left] != keys[right]:
                break
            shift += step
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


def _occurrences(part: list[Key], keys: list[Key]) -> list[int]:
    size = len(part)
    return [at for at in range(len(keys) - size + 1) if keys[at : at + size] == part]


def _common_prefix(left: list[Key], right: list[Key]) -> int:
    """Return the length of the common prefix of two lists, plus one if they are equal."""
    length = next(
        (n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    return length + (length == len(left) == len(right))


def _is_header(units: Sequence[Unit], index: int) -> bool:
    return index >= 0 and units[index].key[0] == "header"


def _is_patch_comment(unit: Unit) -> bool:
    return unit.is_comment and str(unit.key[1]).startswith(PREFIX)


def _bound_name(name: Imported) -> str:
    """Return the name that an import binds."""
    return name[3].partition(".")[0]
