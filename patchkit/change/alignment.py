"""The parts of an item in three versions: what lies between those that stay, and where that belongs in this tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.change.comments import loses_comments, stripped_lines
from patchkit.change.effects import clash, may_exit, may_leave, order_matters
from patchkit.change.imports import all_imported, imported
from patchkit.change.outline import dedented, dumped
from patchkit.change.pairing import is_form
from patchkit.change.policy import Policy
from patchkit.change.regions import Region

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from patchkit.change.outline import Item


_OTHER_ORDER = "the code around it has another order in this tree"
_ASSIGNMENTS = frozenset({"Assign", "AnnAssign"})
_OTHER_BLOCK = "the code next to it is in another block in this tree"


@dataclass
class Chunk:
    """The removed and added items between two that stay; ``left`` and ``right`` are their positions in theirs."""

    removed: list[Item]
    added: list[Item]
    left: int
    right: int

    @property
    def texts(self) -> tuple[str, str]:
        """The text that it removes and the text that it adds, without indentation."""
        return dedented(self.removed), dedented(self.added)

    def without_moves(self, moves: Mapping[Item, Item]) -> Chunk:
        """Return the chunk without the statements that only move."""
        removed = [item for item in self.removed if item not in moves]
        added = [item for item in self.added if item not in moves.values()]
        return replace(self, removed=removed, added=added)


def moved_items(chunks: Sequence[Chunk]) -> dict[Item, Item]:
    """Return the statements that move, unchanged, within the same block."""
    removed = [(item, chunk) for chunk in chunks for item in chunk.removed if not item.children]
    added = [(item, chunk) for chunk in chunks for item in chunk.added]
    pairs: dict[Item, Item] = {}
    for one, chunk in removed:
        same = [(other, to) for other, to in added if other.code == one.code]
        alone = len(same) == 1 and sum(item.code == one.code for item, _ in removed) == 1
        if alone and same[0][1] is not chunk and not is_incidental(one):
            pairs[one] = same[0][0]
    return pairs


@dataclass
class InsertionPoint:
    """A position for an insertion; ``reason`` is how its surroundings differ, so much that it is not ``is_usable``."""

    container: Item
    index: int
    reason: str = ""
    is_usable: bool = True
    base_text: str = ""
    ours_text: str = ""


@dataclass
class Alignment:
    """The parts of an item in three versions, and the pairs that correspond."""

    base: Item
    theirs: Item
    ours: Item
    to_theirs: Mapping[Item, Item]
    to_ours: Mapping[Item, Item]
    policy: Policy

    def __post_init__(self) -> None:
        self.from_theirs = {theirs: base for base, theirs in self.to_theirs.items()}
        self._paired = set(self.to_ours.values())

    def displaced(self, base: Item) -> Item | None:
        """Return a statement of base's function if it occurs once, in another block now, and may be followed there."""
        before, after = base.function, self.ours.function
        if self.policy is Policy.REFUSE or before is None or after is None or len(base.words) < 4:
            return None
        in_ours, in_base = _equal(base, after), _equal(base, before)
        return in_ours[0] if len(in_ours) == len(in_base) == 1 else None

    def counterpart(self, base: Item) -> Item | None:
        """Return what corresponds to a part of base, also in another block."""
        return self.to_ours.get(base) or self.displaced(base)

    def copies(self, base: Item, ours: Item) -> int:
        """Return how many parts of ours may be a part of base as well as the one that was paired with it."""
        if base.is_definition:
            key = base.kind, ours.name
            before, after = (
                sum((item.kind, item.name) == key for item in version.children)
                for version in (self.base, self.ours)
            )
            return after if 0 < before < after else 1
        own = [item for item in self.only_in_ours() if item.code == base.code]
        if self.policy is Policy.REFUSE:
            return 1 + len(own)
        paired, *equal = (
            sum(one == other for one, other in zip(_beside(base), _beside(item), strict=True))
            for item in (ours, *own)
        )
        return 1 + sum(number >= paired for number in equal)

    def gone_comments(self, chunk: Chunk) -> dict[str, bool]:
        """Return base's comments above what a chunk removes or what follows it that this tree removed from there.

        An item of the chunk may have one of them above it now. True if this tree has another comment instead.
        """
        if self.policy is Policy.REFUSE:
            return {}
        following = self.theirs.children[chunk.right : chunk.right + 1]
        ends = [
            (one, self.counterpart(one))
            for one in (*chunk.removed, *(self.from_theirs[item] for item in following))
        ]
        leads = [(one.lead, ours.lead) for one, ours in ends if ours is not None]
        if not following:
            leads.append((self.base.lead_behind, self.ours.lead_behind))
        stays = stripped_lines(following[0].lead if following else self.theirs.lead_behind)
        return {
            line: loses_comments(ours, base, "")
            for base, ours in leads
            for line in {*stripped_lines(base)}.difference(stripped_lines(ours), stays)
        }

    def only_in_ours(self) -> list[Item]:
        """Return the parts of ours that base lacks."""
        return [item for item in self.ours.children if item not in self._paired]

    def own_codes(self) -> set[str]:
        """Return the parts of ours that differ from base, or that base lacks."""
        same = {ours for base, ours in self.to_ours.items() if base.code == ours.code}
        return {item.code for item in self.ours.children if item not in same}

    def form_of(self, base: Item) -> Item | None:
        """Return the parts of ours at the position of a part of base, which may be other forms of it."""
        parts, position = self.base.children, base.position
        left = next((self.to_ours[item] for item in parts[:position][::-1] if item in self.to_ours), None)
        right = next((self.to_ours[item] for item in parts[position + 1 :] if item in self.to_ours), None)
        low = 0 if left is None else left.position + 1
        high = None if right is None else right.position
        inside = [item for item in self.ours.children[low:high] if item not in self._paired]
        if base.documentation:
            return next((item for item in inside if item.documentation), None)
        return next((item for item in inside if any(is_form(base, part) for part in item.walk())), None)

    def region_at(self, theirs: Item) -> Region:
        """Return the position in ours for an item of theirs."""
        return self._near(theirs.position - 1, theirs.position + 1)

    def region(self, chunk: Chunk) -> Region:
        """Return the parts of ours at the position of a chunk."""
        counterparts = [item for one in chunk.removed if (item := self.counterpart(one)) is not None]
        blocks = {item.parent for item in counterparts}
        block = blocks.pop() if len(blocks) == 1 else None
        if block is None:
            return self._near(chunk.left, chunk.right)
        positions = [item.position for item in counterparts]
        return Region(block, min(positions), max(positions) + 1)

    def displacement(self, chunk: Chunk, place: Item) -> str:
        """Return how the position of a chunk's code in ours differs from the expected one; empty if it does not."""
        if place.parent is not self.ours:
            return _OTHER_BLOCK
        left, right = self._neighbours(chunk.left, chunk.right)
        if left.index is None or right.index is None:
            return _OTHER_BLOCK
        return "" if left.index <= place.position < right.index else _OTHER_ORDER

    def _near(self, left: int, right: int) -> Region:
        before, behind = self._neighbours(left, right)
        if before.index is None or behind.index is None:
            point = self._point_in_other_block(before, behind)
            return Region(point.container, point.index, point.index)
        is_left_nearer = before.item is not None and (behind.item is None or before.steps <= behind.steps)
        index = before.index if is_left_nearer else behind.index
        return Region(self.ours, index, index)

    def unimported(self, item: Item) -> list[str]:
        """Return the names of an import that no import of this block in ours has, each as an import of its own."""
        ours = set(all_imported(self.ours.children))
        return [name for name in imported(item) if name not in ours]

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks: removed and added items between items that stay in order."""
        base, theirs = self.base.children, self.theirs.children
        places = {item: index for index, item in enumerate(theirs)}
        last_b = last_t = -1
        moved: set[Item] = set()
        ends: list[tuple[int, int]] = []
        for index, item in enumerate(base):
            if item in self.to_theirs:
                place = places[self.to_theirs[item]]
                if place > (ends[-1][1] if ends else -1) and not self._is_jump(index, place, places):
                    ends.append((index, place))
                else:
                    moved.add(item)
        unmoved = {self.to_theirs[item] for item in moved}
        for end_b, end_t in (*ends, (len(base), len(theirs))):
            removed = [item for item in base[last_b + 1 : end_b] if item not in moved]
            added = [item for item in theirs[last_t + 1 : end_t] if item not in unmoved]
            if removed or added:
                yield Chunk(removed, added, last_t, end_t)
            last_b, last_t = end_b, end_t

    def _is_jump(self, index: int, place: int, places: Mapping[Item, int]) -> bool:
        """Return whether a definition moved down past others, which then seem to have moved up."""
        if not self.base.children[index].is_definition:
            return False
        behind = [
            places[self.to_theirs[item]] for item in self.base.children[index + 1 :] if item in self.to_theirs
        ]
        return sum(other < place for other in behind) > 1

    def insertion_point(self, added: Sequence[Item]) -> InsertionPoint:
        """Return the position for an insertion, beside its neighbours, and never in unreachable code."""
        point = self._place(added)
        before = point.container.children[: point.index]
        if before and before[-1].is_exit:
            reason = "in this tree the statement before it leaves the block"
            return replace(point, reason=reason, is_usable=False)
        return point

    def _place(self, added: Sequence[Item]) -> InsertionPoint:
        theirs, ours = self.theirs.children, self.ours
        first, last = added[0].position, added[-1].position
        left, right = self._neighbours(first - 1, last + 1)
        if left.index is None or right.index is None:
            return self._point_in_other_block(left, right)
        low, high = left.index, right.index
        if left.item is None and ours.docstring is not None:
            low = min(1, high)
        if added[0].kind == "elif":
            low, high = self._among_branches(theirs[:first], theirs[last + 1 :], low, high)
        base_text = dedented((*theirs[max(0, first - 1) : first], *theirs[last + 1 : last + 2]))
        is_free = self._is_free(added)
        is_beside = left.is_next or right.is_next or ours.is_scope or not ours.children
        if not is_beside and not all(map(is_incidental, added)):
            return InsertionPoint(ours, low, "the code next to it is not in this tree", is_usable=False)
        if low == high:
            return InsertionPoint(ours, low)
        if low > high:
            index = low if left.steps <= right.steps else high
            return InsertionPoint(ours, index, "" if is_free else _OTHER_ORDER, base_text=base_text)
        ours_text = dedented(ours.children[max(0, low - 1) : high + 1])
        is_ordered = any(map(_is_field, added)) and any(map(_is_field, ours.children[low:high]))
        if self.policy is Policy.REFUSE and (is_ordered or not is_free):
            return InsertionPoint(ours, low, "this tree has other code at its place", is_usable=False)
        removed = {self.to_ours.get(item) for item in self.base.children if item not in self.to_theirs}
        own = [item for item in ours.children[low:high] if item not in removed]
        is_left_nearer = left.item is not None and left.steps <= right.steps
        # A guard at the start of a function is for all of it.
        is_first = all(map(is_incidental, theirs[:first]))
        is_guarding = any(map(may_leave if is_first else may_exit, added))
        is_guard = left.item is None and ours.is_function and is_guarding
        matters = not is_free and order_matters(added, own)
        if not matters:
            # At the end of a file or class what follows an assignment stays there, above definitions of this tree.
            is_assigned = left.is_next and left.item is not None and left.item.kind in _ASSIGNMENTS
            is_below = is_free and right.item is None and is_assigned
            is_low = is_left_nearer or is_guard or is_below or (left.item is None and right.steps > 1)
            return InsertionPoint(ours, low if is_low else high)
        clashing = clash(added, own)
        if clashing and self.policy is Policy.ADAPT:
            reason = f"this tree has code of its own at its place that {clashing}"
            return InsertionPoint(ours, low, reason, is_usable=False)
        index = low if is_left_nearer or is_guard else high
        return InsertionPoint(
            ours, index, "the code next to it uses the same names", base_text=base_text, ours_text=ours_text
        )

    def _among_branches(
        self, before: Sequence[Item], behind: Sequence[Item], low: int, high: int
    ) -> tuple[int, int]:
        """Return the positions for a branch: behind all that test what those above it test, before all others."""
        above, below = ({dumped(item.nodes[0]) for item in items if item.nodes} for items in (before, behind))
        tests = [dumped(item.nodes[0]) for item in self.ours.children]
        low = max([low, *(index + 1 for index, test in enumerate(tests) if test in above)])
        return low, min([high, *(index for index, test in enumerate(tests) if test in below)])

    def _is_free(self, added: Sequence[Item]) -> bool:
        return self.ours.is_scope and all(
            item.is_definition or item.is_import or self.ours.kind == "ClassDef" for item in added
        )

    def _neighbours(self, left: int, right: int) -> tuple[_Neighbour, _Neighbour]:
        """Return the nearest items of ours before and behind two positions in theirs."""
        after = range(right, len(self.theirs.children))
        return self._neighbour(range(left, -1, -1), behind=True), self._neighbour(after, behind=False)

    def _neighbour(self, order: Iterable[int], *, behind: bool) -> _Neighbour:
        """Return the nearest item of ours on one side, also if it is in a branch now; the end if there is none."""
        places = {item: index for index, item in enumerate(self.ours.children)}
        only_in_ours = {item.code: item for item in self.only_in_ours()}
        steps = 0
        for steps, position in enumerate(order, 1):
            base = self.from_theirs.get(self.theirs.children[position])
            item = (
                only_in_ours.get(self.theirs.children[position].code)
                if base is None
                else self.to_ours.get(base)
            )
            if item is not None:
                return _Neighbour(item, steps, places[item] + behind)
            inside = self.displaced(base) if base is not None and steps == 1 else None
            if inside is not None:
                return _Neighbour(inside, steps, None)
        return _Neighbour(None, steps, 0 if behind else len(self.ours.children))

    def _point_in_other_block(self, left: _Neighbour, right: _Neighbour) -> InsertionPoint:
        """Return the position of an insertion whose neighbour is in another block now."""
        near = [neighbour for neighbour in (left, right) if neighbour.item is not None]
        here = [neighbour.index for neighbour in near if neighbour.index is not None]
        if here:
            return InsertionPoint(self.ours, here[0], _OTHER_BLOCK)
        blocks = {neighbour.item.parent for neighbour in near if neighbour.item is not None}
        item, behind = (left.item, 1) if near[0] is left else (right.item, 0)
        assert item is not None  # What has no place in the block is in another.
        assert item.parent is not None  # So it is in one.
        return InsertionPoint(item.parent, item.position + behind, _OTHER_BLOCK, is_usable=len(blocks) == 1)


@dataclass(frozen=True)
class _Neighbour:
    """A neighbour, its distance, and the position that follows from it: None if it is in another block."""

    item: Item | None
    steps: int
    index: int | None

    @property
    def is_next(self) -> bool:
        """Whether no item that the tree lacks was between the position and the neighbour, or the end of the block."""
        return self.steps <= (self.item is not None)


def _beside(item: Item) -> list[str]:
    """Return the codes before and after an item; empty at an end of the block."""
    assert item.parent is not None  # It is in a block.
    parts, position = item.parent.children, item.position
    runs = parts[max(0, position - 1) : position], parts[position + 1 : position + 2]
    return ["".join(part.code for part in run) for run in runs]


def _is_field(item: Item) -> bool:
    """Return whether a statement is a field of a class whose place among others may say something, as in an enum."""
    is_made = item.kind == "Assign" and any(isinstance(node, ast.Call) for node in item.syntax())
    return (
        item.parent is not None and item.parent.kind == "ClassDef" and (is_made or item.kind == "AnnAssign")
    )


def is_incidental(item: Item) -> bool:
    """Return whether a statement is a docstring, ``pass`` or an import, whose absence is no conflict."""
    node = item.node
    return isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _equal(base: Item, around: Item) -> list[Item]:
    """Return the statements in an item that are equal to one of base."""
    return [item for item in around.walk() if item.kind == base.kind and item.code == base.code]


def noted_place(base: Item, ours: Item) -> str:
    """Return a note on the other function of the file that contains a statement; empty if none does."""
    if len(base.words) < 4:
        return ""
    sites = [item.site for item in _equal(base, ours.root)]
    return f": it is in {sites[0]}" if len(sites) == 1 and sites[0] != ours.site else ""
