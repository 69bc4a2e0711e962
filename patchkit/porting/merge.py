"""Merge three versions of a Python file edit by edit: the changes between two of them are made in the third.

An edit is made at the statement, branch, definition or element that it changes, wherever that is now. An addition is
placed beside its neighbours. If these are missing or have other code, the edit is a conflict.
"""

from __future__ import annotations

import ast
import enum
import keyword
from collections import Counter
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from patchkit.porting import tokens
from patchkit.porting.pairing import alike, is_form, paired, renames
from patchkit.porting.regions import Region, enclosed, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from patchkit.porting.outline import Item
    from patchkit.porting.regions import Blocks

    Elsewhere = Callable[[Item], Item | None]
    Key = tuple[Item, str]
    """Identifies an edit: the item that it changes, removes or adds, and the part of it: all, or its header."""

_STEP = "    "
_WIDTH = 88
_NEARLY = 0.8
"""The least share of equal lines with which a definition that differs is still removed."""
_COMMENTED = "applying it would delete a comment of this tree"


class Outcome(str, enum.Enum):
    """The outcome of an edit.

    It was made (``landed``), also where the code around it differs (``changed``), or the tree has it already. It was
    not made if the tree has other code at its site (``conflict``), has no such site, or lacks a name that the new code
    uses (``unmet``). An edit of a comment is not made either if the tree has a comment of its own, which is kept.
    """

    LANDED = "landed"
    CHANGED = "changed"
    KEPT = "kept"
    ALREADY = "already"
    CONFLICT = "conflict"
    NO_SITE = "no-site"
    UNMET = "unmet"


@dataclass(frozen=True)
class Edit:
    """One edit: its site, outcome and reason; ``was`` is the site in its own tree, ``stands`` the one in this tree.

    ``wanted`` is the code of a conflict that is left to a person, ``place`` this tree's item, and ``region`` the extent
    of the conflict in it.
    """

    site: str
    outcome: Outcome
    reason: str = ""
    was: str = ""
    stands: str = ""
    wanted: str = ""
    place: Item | None = field(default=None, compare=False)
    key: Key | None = field(default=None, compare=False)
    region: Region | None = field(default=None, compare=False)


@dataclass
class EqualPairs:
    """Pairs of equal items, cached across merges of the same items."""

    _pairs: dict[tuple[Item, Item], dict[Item, Item]] = field(default_factory=dict)
    _names: dict[tuple[Item, Item], dict[str, str]] = field(default_factory=dict)

    def parts(self, one: Item, other: Item) -> dict[Item, Item]:
        """Return the pairs of parts of two items that correspond."""
        if (one, other) not in self._pairs:
            self._pairs[one, other] = paired(one.parts, other.parts)
        return self._pairs[one, other]

    def names(self, one: Item, other: Item) -> dict[str, str]:
        """Return the names of a function that were renamed in another one."""
        if (one, other) not in self._names:
            self._names[one, other] = _renamed_locals(one, other, self.parts(one, other))
        return self._names[one, other]


@dataclass
class Merge:
    """Makes the edits of a change in the outlines of this tree; ``elsewhere`` finds a definition that moved.

    Edits that are ``refused`` are not made, for the given reasons.
    """

    elsewhere: Elsewhere
    refused: Mapping[Key, str] = field(default_factory=dict)
    same: EqualPairs = field(default_factory=EqualPairs)
    edits: list[Edit] = field(default_factory=list)
    followed: set[str] = field(default_factory=set)
    """Notes on the renames that were followed."""
    _texts: dict[Item, str | None] = field(default_factory=dict)
    _heads: dict[Item, str] = field(default_factory=dict)
    _leads: dict[Item, str] = field(default_factory=dict)
    _tails: dict[Item, str] = field(default_factory=dict)
    _slots: dict[tuple[Item, int], list[str]] = field(default_factory=dict)
    _names: dict[Item, dict[str, str]] = field(default_factory=dict)

    def make(self, base: Item, theirs: Item, ours: Item) -> None:
        """Make the changes from ``base`` to ``theirs`` in ``ours``; all three are files."""
        # What comes last may bring the comments with it that were at the end.
        self._tail(base, theirs, ours)
        self._rows(base, theirs, ours)

    def scatter(self, base: Item, theirs: Item) -> None:
        """Make the changes between two versions of a file that the tree lacks, in its definitions elsewhere."""
        pairs = self.same.parts(base, theirs)
        for one, other in pairs.items():
            if one.plain != other.plain and one.is_definition:
                self._missing(one, other)
            elif one.plain != other.plain and not one.is_import:
                self._note(one, Outcome.NO_SITE, "the tree has no such file", theirs=other)
        for each in (each for each in theirs.parts if each not in pairs.values() and not each.is_import):
            self._note(each, Outcome.NO_SITE, "the tree has no such file", theirs=each)

    def render(self, item: Item, blocks: Blocks = MappingProxyType({})) -> str:
        """Return the text of an item after the edits; ``blocks`` are the conflicts that are marked in it."""
        if item in self._texts:
            return self._texts[item] or ""
        header, *inside = blocks.get(item) or [None]
        head = self._heads.get(item, item.head)
        found = [
            self._leads.get(item, item.lead),
            head if header is None else header.around(head, item.indent),
        ]
        end = 0
        for at in range(len(item.parts) + 1):
            for text in self._slots.get((item, at), ()) if at >= end else ():
                found += ["\n"] if found[-1] and not found[-1].endswith("\n") else []
                found.append(text)
            for block in (each for each in inside if each is not None and each.start == at):
                end = max(end, block.end)
                text = "".join(self._run(item, block.start, block.end))
                found += ["\n"] if found[-1] and not found[-1].endswith("\n") else []
                found.append(block.around(text, _inner(item)))
            if end <= at < len(item.parts):
                found.append(self.render(item.parts[at], blocks))
        return "".join(found) + self._tails.get(item, item.tail)

    def _run(self, item: Item, start: int, end: int) -> Iterator[str]:
        """Yield the texts of a run of parts after the edits, with what is inserted between them."""
        for at in range(start, end):
            yield from self._slots.get((item, at), ()) if at > start else ()
            yield self.render(item.parts[at])

    def marked(self, root: Item, name: str, numbers: Mapping[int, int]) -> tuple[str, frozenset[int]]:
        """Return a file with markers at its conflicts, and the numbers of the edits in conflict.

        ``name`` is what markers call the change, and ``numbers`` say which edit, by its identity, is which.
        """
        stuck: list[tuple[Region, int, str, str]] = []
        for edit in self.edits:
            if edit.region is not None and id(edit) in numbers:
                was, wanted = (self._named(text, edit.region.inside) for text in (edit.was, edit.wanted))
                stuck.append((edit.region, numbers[id(edit)], was, wanted))
        blocks = enclosed(name, stuck)
        text = self.render(root, blocks)
        return text, said(text, blocks)

    def _refuses(
        self, key: Key, *, base: Item | None = None, theirs: Item | None = None, region: Region | None = None
    ) -> bool:
        """Return whether an edit is refused, and record the reason."""
        reason = self.refused.get(key)
        if reason is not None:
            item, part = key
            was, wanted = (
                "" if each is None else _bare(each) if part else each.plain for each in (base, theirs)
            )
            self._stick(item.site, reason, (was, wanted), region, unmet=True)
        return reason is not None

    def _is_refused_inside(self, *versions: Item) -> bool:
        return any(item in version.walk() for item, _ in self.refused for version in versions)

    def _stick(
        self, site: str, reason: str, sides: tuple[str, str], region: Region | None, *, unmet: bool = False
    ) -> None:
        """Record an edit that is not made; ``sides`` are the expected and the wanted text of its region."""
        (was, wanted), outcome = sides, Outcome.UNMET if unmet else Outcome.CONFLICT
        stands = "" if region is None else region.text
        place = None if region is None else region.inside
        self.edits.append(Edit(site, outcome, reason, was, stands, wanted, place, region=region))

    def _note(
        self,
        about: Item,
        outcome: Outcome,
        reason: str = "",
        *,
        theirs: Item | None = None,
        ours: Item | None = None,
        key: Key | None = None,
    ) -> None:
        changed = outcome not in (Outcome.LANDED, Outcome.ALREADY)
        self.edits.append(
            Edit(
                about.site,
                outcome,
                reason,
                about.plain if changed else "",
                ours.plain if changed and ours is not None else "",
                theirs.plain if theirs is not None else "",
                ours,
                key,
            )
        )

    def _clash(self, base: Item, theirs: Item | None, ours: Item, reason: str) -> None:
        """Record a conflict: the item differs from the one that the change edits or removes."""
        wanted = "" if theirs is None else theirs.plain
        self._stick(base.site, reason, (base.plain, wanted), Region.of(ours))

    def _item(self, base: Item, theirs: Item, ours: Item) -> None:
        """Make the changes between two versions of an item in the tree's version."""
        self._lead(base, theirs, ours)
        was, becomes = self._named(base.bare, ours), self._named(theirs.bare, ours)
        if was == becomes:
            return
        # What a class means is asked of its parts.
        if ours.kind != "ClassDef" and theirs.code == ours.code and base.code != theirs.code:
            self._there(base, theirs, ours)
            return
        is_nested = base.parts and theirs.parts and ours.parts and _same_shape(base, theirs, ours)
        if is_nested and (ours.bare != was or self._is_refused_inside(base, theirs)):
            self._head(base, theirs, ours)
            self._rows(base, theirs, ours)
        elif self._refuses((theirs, ""), base=base, theirs=theirs, region=Region.of(ours)):
            pass
        elif ours.bare == was:
            self._texts[ours] = self._leads.get(ours, ours.lead) + tokens.shifted(becomes, "", ours.indent)
            self._note(theirs, Outcome.LANDED, ours=ours, key=(theirs, ""))
        elif theirs.code == ours.code and base.code != theirs.code:
            self._there(base, theirs, ours)
        else:
            self._merged(base, theirs, ours)

    def _there(self, base: Item, theirs: Item, ours: Item) -> None:
        """Record that the code of an edit is already there, and whether its comments are."""
        if tokens.loses_comments(theirs.bare, base.bare, ours.bare):
            reason = "this tree has the code, without the comment of the change"
            self._note(base, Outcome.KEPT, reason, theirs=theirs, ours=ours)
        else:
            self._note(theirs, Outcome.ALREADY)

    def _merged(self, base: Item, theirs: Item, ours: Item) -> None:
        was, becomes = self._named(base.bare, ours), self._named(theirs.bare, ours)
        stands = ours.bare
        if base.code == ours.code and not tokens.loses_comments(stands, was, becomes):
            made = becomes
        elif base.code == theirs.code:
            self._keep(base, theirs, ours, "this tree's version differs")
            return
        elif base.parts or theirs.parts or ours.parts:
            self._clash(base, theirs, ours, "this tree's version differs too much to merge")
            return
        else:
            try:
                made = _valid(tokens.merged(was, becomes, stands))
            except tokens.ClashError as error:
                imports = _joined(base, theirs, ours)
                if not imports:
                    self._clash(base, theirs, ours, str(error))
                    return
                made = imports
            if tokens.loses_comments(stands, was, made):
                self._clash(base, theirs, ours, _COMMENTED)
                return
            if made == stands:
                self._note(theirs, Outcome.ALREADY)
                return
        self._texts[ours] = self._leads.get(ours, ours.lead) + tokens.shifted(made, "", ours.indent)
        outcome = Outcome.LANDED if base.code == ours.code and made == becomes else Outcome.CHANGED
        reason = "" if outcome is Outcome.LANDED else "this tree's statement differs"
        self._note(base, outcome, reason, theirs=theirs, ours=ours, key=(theirs, ""))

    def _keep(self, base: Item, theirs: Item, ours: Item, what: str) -> None:
        """Record that the tree's comments and layout of an item are kept, unless the change's comments are there."""
        was, becomes, stands = (tokens.comments(each.bare) for each in (base, theirs, ours))
        if was != becomes and not (becomes - was - stands or (was - becomes) & stands):
            self._note(theirs, Outcome.ALREADY)
            return
        kept = "comment" if was != becomes else "layout"
        self._note(base, Outcome.KEPT, f"{what}, so its {kept} was not changed", theirs=theirs, ours=ours)

    def _lead(self, base: Item, theirs: Item, ours: Item) -> None:
        """Make the change of the comments above an item, unless the tree has other comments."""
        made = self._comments(base, theirs, ours, lambda item: item.lead)
        if made is not None:
            self._leads[ours] = made
            if ours in self._texts:
                self._texts[ours] = made + (self._texts[ours] or "")

    def _tail(self, base: Item, theirs: Item, ours: Item) -> None:
        """Make the change of the comments at the end of the file, unless the tree has other comments."""
        made = self._comments(base, theirs, ours, lambda item: item.tail)
        if made is not None:
            self._tails[ours] = made

    def _comments(self, base: Item, theirs: Item, ours: Item, of: Callable[[Item], str]) -> str | None:
        """Return the changed comments; None, and a record of it, if the tree's comments are kept."""
        was, becomes, stands = map(of, (base, theirs, ours))
        old, new, here = (_stripped(text) for text in (was, becomes, stands))
        if old == new:
            return None
        gone = _taken(old, new)
        left = None if gone is None else _without(stands, gone)
        if new == here or left == stands:
            self._note(theirs, Outcome.ALREADY)
            return None
        if here == old or left is not None:
            self._note(theirs, Outcome.LANDED)
            return tokens.shifted(becomes, theirs.indent, ours.indent) if here == old else left
        where = "above it" if base.above is not None else "at the end of the file"
        reason = f"this tree has another comment {where}, which was kept"
        self._note(base, Outcome.KEPT, reason, theirs=theirs, ours=ours)
        return None

    def _head(self, base: Item, theirs: Item, ours: Item) -> None:
        was, becomes = self._named(_bare(base), ours), self._named(_bare(theirs), ours)
        stands, region = _bare(ours), Region(ours)
        if (
            was == becomes
            or not was
            or self._refuses((theirs, "head"), base=base, theirs=theirs, region=region)
        ):
            return
        if stands == was or " ".join(stands.split()) == " ".join(was.split()):
            made, outcome = becomes, Outcome.LANDED
        elif tokens.words(was) == tokens.words(becomes):
            self._keep(base, theirs, ours, "this tree's header differs")
            return
        elif " ".join(tokens.words(stands)) == " ".join(tokens.words(becomes)):
            self._note(theirs, Outcome.ALREADY)
            return
        else:
            try:
                made, outcome = _valid(_merged_heads(was, becomes, stands), ours.kind), Outcome.CHANGED
            except tokens.ClashError as error:
                self._stick(base.site, str(error), (_bare(base), _bare(theirs)), region)
                return
            if made == stands:
                self._note(theirs, Outcome.ALREADY)
                return
        self._heads[ours] = tokens.shifted(made, "", ours.indent)
        reason = "this tree's header differs" if outcome is Outcome.CHANGED else ""
        self._note(base, outcome, reason, theirs=theirs, ours=ours, key=(theirs, "head"))

    def _named(self, text: str, ours: Item) -> str:
        """Return a text with the names that locals and parameters have in this tree's function."""
        function = ours.function
        names = self._names.get(function, {}) if function is not None else {}
        made = tokens.renamed(text, names)
        if made != text:
            self.followed.update(
                f"{old} is named {new} in {ours.site} of this tree" for old, new in names.items()
            )
        return made

    def _is_same(self, base: Item, ours: Item) -> bool:
        """Return whether the tree's item equals the one that is removed, apart from renames."""
        if base.code == ours.code:
            return True
        return tokens.words(self._named(base.bare, ours)) == tokens.words(ours.bare)

    def _is_earlier(self, base: Item, ours: Item) -> bool:
        """Return whether the tree's item only has lines of the one that is removed: the same, or an earlier form."""
        return base.code == ours.code or tokens.is_part(ours.bare, self._named(base.bare, ours))

    def _rows(self, base: Item, theirs: Item, ours: Item) -> None:
        """Make the changes between the parts of two versions of an item in the tree's version."""
        to_theirs = self.same.parts(base, theirs)
        to_ours = self.same.parts(base, ours)
        if ours.is_function and ours not in self._names:
            self._names[ours] = self.same.names(base, ours)
        row = _Row(base, theirs, ours, to_theirs, to_ours)
        gaps = list(row.gaps())
        moves = {} if base.is_scope else _moves(gaps)
        stuck: set[Item] = set()
        for one, other in to_theirs.items():
            if one.plain != other.plain:
                first = len(self.edits)
                self._changed(row, one, other)
                is_stuck = any(edit.outcome is Outcome.CONFLICT for edit in self.edits[first:])
                stuck |= {other} if is_stuck and not other.parts else set()
        for one, other in moves.items():
            self._moved(row, one, other)
        for gap in (gap.without(moves) for gap in gaps):
            self._documented(row, gap)
            if not (gap.gone or gap.come):
                continue
            beside = {
                *theirs.parts[max(0, gap.left) : gap.left + 1],
                *theirs.parts[gap.right : gap.right + 1],
            }
            if stuck & beside and not base.is_scope:
                self._conflict(row, gap, "it is next to a conflict")
            elif base.is_scope or not (gap.gone and gap.come):
                for one in gap.gone:
                    self._gone(row, one)
                if gap.come:
                    self._come(row, gap)
            else:
                self._replaced(row, gap)

    def _moved(self, row: _Row, base: Item, theirs: Item) -> None:
        """Move a statement to its new place, with the tree's text."""
        ours = row.to_ours.get(base)
        if ours is None and any(theirs.code == each.code for each in row.fresh()):
            self._note(theirs, Outcome.ALREADY)
            return
        if ours is None or ours.parts:
            reason = f"the moved statement is not in this tree{_moved_to(base, row.ours)}"
            self._stick(base.site, reason, ("", theirs.plain), row.at(theirs))
            return
        slot = row.slot([theirs])
        here = row.ours.parts.index(ours)
        if slot.container is not row.ours or not slot.certain:
            self._clash(base, theirs, ours, slot.reason or "its new place is in another block in this tree")
        elif slot.at in {here, here + 1}:
            self._note(theirs, Outcome.ALREADY)
        elif not self._refuses((theirs, ""), base=base, theirs=theirs, region=Region.of(ours)):
            self._texts[ours] = ""
            if ours.plain == base.plain:
                self._put(row.ours, slot.at, [theirs], ours.indent)
            else:
                self._slots.setdefault((row.ours, slot.at), []).append(ours.text)
            is_same = self._is_same(base, ours)
            outcome = Outcome.LANDED if is_same and not slot.reason else Outcome.CHANGED
            reason = slot.reason or ("" if is_same else "this tree's version of the moved statement differs")
            self._note(base, outcome, reason, theirs=theirs, ours=ours, key=(theirs, ""))

    def _changed(self, row: _Row, base: Item, theirs: Item) -> None:
        ours = row.to_ours.get(base)
        if ours is not None:
            self._item(base, theirs, ours)
            return
        if base.is_definition:
            self._missing(base, theirs)
            return
        inside = _inside(base, row.ours)
        if inside is not None:
            self._item(base, theirs, inside)
        elif any(theirs.code == each.code for each in row.fresh()):
            self._note(theirs, Outcome.ALREADY)
        elif base.code == theirs.code:
            reason = "only a comment or the layout changes, and this tree does not have the statement"
            self._note(base, Outcome.KEPT, reason, theirs=theirs)
        elif base.is_import and self._import(row, base, theirs):
            pass
        else:
            reason = f"the changed statement is not in this tree{_moved_to(base, row.ours)}"
            self._stick(base.site, reason, (base.plain, theirs.plain), row.at(theirs))

    def _missing(self, base: Item, theirs: Item) -> None:
        """Make the edits of a definition that has moved."""
        place = self.elsewhere(base)
        if place is not None:
            self._item(base, theirs, place)
        elif base.kind == "ClassDef" and theirs.kind == "ClassDef":
            pairs = self.same.parts(base, theirs)
            for one, other in pairs.items():
                if one.plain != other.plain and one.is_definition:
                    self._missing(one, other)
                elif one.plain != other.plain:
                    self._note(base, Outcome.NO_SITE, f"the tree has no {base.site}", theirs=other)
            for each in (each for each in theirs.parts if each not in pairs.values()):
                self._note(base, Outcome.NO_SITE, f"the tree has no {base.site}", theirs=each)
        else:
            self._note(base, Outcome.NO_SITE, f"the tree has no {base.site}", theirs=theirs)

    def _import(self, row: _Row, base: Item, theirs: Item) -> bool:
        """Add the names of an import statement that the tree lacks."""
        had, has = imported(base), imported(theirs)
        here = {name for each in row.ours.parts if each.is_import for name in imported(each)}
        fresh = [name for name in has if name not in had and name not in here]
        if not fresh:
            self._note(theirs, Outcome.ALREADY)
            return True
        indent = row.ours.parts[0].indent if row.ours.parts else ""
        text = "".join(f"{indent}{name}\n" for name in fresh)
        self._slots.setdefault((row.ours, _behind_imports(row.ours)), []).append(text)
        self._note(theirs, Outcome.LANDED)
        return True

    def _gone(self, row: _Row, base: Item) -> None:
        ours = row.to_ours.get(base) or _inside(base, row.ours)
        if ours is None and base.is_definition:
            ours = self.elsewhere(base)
        if ours is None:
            form = row.form_of(base)
            if form is None:
                self._note(base, Outcome.ALREADY)
            else:
                self._clash(base, None, form, "the deleted code has another form in this tree")
        elif self._refuses((base, ""), base=base, region=Region.of(ours)):
            pass
        elif tokens.loses_comments(ours.text, base.text, ""):
            self._clash(base, None, ours, _COMMENTED)
        elif self._is_same(base, ours):
            self._texts[ours] = ""
            self._note(base, Outcome.LANDED, ours=ours, key=(base, ""))
        elif base.is_import and (left := _joined(base, None, ours)):
            self._texts[ours] = ours.lead + tokens.shifted(left, "", ours.indent)
            self._note(base, Outcome.CHANGED, "this tree's import has more names", ours=ours, key=(base, ""))
        elif self._is_earlier(base, ours) or (base.is_definition and alike(base, ours) >= _NEARLY):
            self._texts[ours] = ""
            reason = "this tree's version of the deleted code differs"
            self._note(base, Outcome.CHANGED, reason, ours=ours, key=(base, ""))
        else:
            self._clash(base, None, ours, "the deleted code differs in this tree")

    def _replaced(self, row: _Row, gap: _Gap) -> None:
        """Replace statements by others."""
        there = [row.to_ours.get(one) or _inside(one, row.ours) for one in gap.gone]
        found = [(one, each) for one, each in zip(gap.gone, there, strict=True) if each is not None]
        codes = {each.code for each in row.ours.parts}
        is_there = row.own_codes().issuperset(each.code for each in gap.come)
        if is_there and codes.isdisjoint(one.code for one in gap.gone):
            self._note(gap.come[0], Outcome.ALREADY)
            return
        if len(found) < len(gap.gone) and not all(
            _says_little(one) for one, each in zip(gap.gone, there, strict=True) if each is None
        ):
            gone = next(one for one, each in zip(gap.gone, there, strict=True) if each is None)
            where = _moved_to(gone, row.ours)
            self._conflict(row, gap, f"part of the replaced code is not in this tree{where}")
            return
        if not found:
            self._come(row, gap)
            return
        other = next((each for one, each in found if not self._is_earlier(one, each)), None)
        if other is not None:
            self._conflict(row, gap, "the replaced code differs in this tree")
            return
        refused = next((each for each in (*gap.come, *gap.gone) if (each, "") in self.refused), None)
        if refused is not None:
            self._conflict(row, gap, self.refused[refused, ""], unmet=True)
            return
        first = found[0][1]
        assert first.above is not None
        for _, each in found:
            self._texts[each] = ""
        at = first.above.parts.index(first)
        self._put(first.above, at, gap.come, first.indent)
        same = all(self._is_same(one, each) for one, each in found)
        edit = Edit(
            row.base.site,
            Outcome.LANDED if same else Outcome.CHANGED,
            "" if same else "this tree's version of the replaced code differs",
            "" if same else "".join(one.plain for one in gap.gone),
            "" if same else "".join(each.plain for _, each in found),
            "".join(each.plain for each in gap.come),
            first,
            (gap.come[0], ""),
        )
        self.edits.append(edit)

    def _conflict(self, row: _Row, gap: _Gap, reason: str, *, unmet: bool = False) -> None:
        """Record a conflict of all changes between two items together."""
        was, wanted = ("".join(each.plain for each in items) for items in (gap.gone, gap.come))
        self._stick(row.base.site, reason, (was, wanted), row.region(gap), unmet=unmet)

    def _documented(self, row: _Row, gap: _Gap) -> None:
        """Insert a new docstring as the first statement; a conflict if the tree has another docstring."""
        first = _docstring_of(row.theirs)
        if first is None or gap.come[:1] != [first]:
            return
        here = _docstring_of(row.ours)
        if here is not None and here not in row.to_ours.values():
            if _documentation(here) == _documentation(first):
                self._note(first, Outcome.ALREADY)
            else:
                was = "".join(each.plain for each in gap.gone if _is_docstring(each))
                reason = "the change adds a docstring, and this tree has another"
                self._stick(row.base.site, reason, (was, first.plain), Region.of(here))
            gap.gone = [each for each in gap.gone if not _is_docstring(each)]
        elif not row.ours.parts or (here is not None and gap.gone and not row.base.is_scope):
            return
        elif not self._refuses((first, ""), theirs=first, region=Region(row.ours, 0, 0)):
            self._put(row.ours, 0, [first], _inner(row.ours))
            self._note(first, Outcome.LANDED, ours=row.ours.parts[0], key=(first, ""))
        gap.come = gap.come[1:]

    def bring(self, root: Item, line: str) -> None:
        """Add an import to a file, after its other imports."""
        self._slots.setdefault((root, _behind_imports(root)), []).append(f"{line}\n")

    def _come(self, row: _Row, gap: _Gap) -> None:
        """Insert new items beside the neighbours that they have in the change."""
        fresh = row.fresh()
        codes = {each.code for each in fresh}
        names = {each.name: each for each in fresh if _is_unique(each)}
        come: list[Item] = []
        for each in gap.come:
            if each.code in codes or (each.is_import and row.isimported(each)):
                self._note(each, Outcome.ALREADY)
            elif _is_unique(each) and each.name in names:
                reason = f"the change adds {each.name}, and this tree has another"
                region = Region.of(names[each.name])
                self._stick(each.site, reason, ("", each.plain), region)
            elif not self._refuses((each, ""), theirs=each, region=row.at(each)):
                come.append(each)
        if not come:
            return
        slot = row.slot(come)
        if slot.reason and not slot.certain:
            self._conflict(row, replace(gap, gone=[], come=come), slot.reason)
            return
        container = slot.container
        is_bare = not container.parts and container.above is None
        if is_bare:
            self._put_below(container, come[0])
        self._put(container, slot.at, come[is_bare:], _inner(container))
        outcome = Outcome.CHANGED if slot.reason else Outcome.LANDED
        place = container.parts[slot.at - 1] if slot.at else container
        for each in come:
            self.edits.append(
                Edit(
                    each.site or row.base.site,
                    outcome,
                    slot.reason,
                    slot.was,
                    slot.stands,
                    place=place,
                    key=(each, ""),
                )
            )

    def _put_below(self, module: Item, each: Item) -> None:
        """Append new items to a file that contains only comments."""
        tail = self._tails.get(module, module.tail)
        known = _stripped(tail)
        lead = [line for line in each.lead.splitlines(keepends=True) if line.strip() not in known]
        self._tails[module] = ""
        self._slots.setdefault((module, 0), []).append(f"{tail}{''.join(lead)}{each.own}")

    def _put(self, container: Item, at: int, come: Iterable[Item], indent: str) -> None:
        for each in come:
            text = self._named(tokens.shifted(each.text, each.indent, indent), container)
            self._slots.setdefault((container, at), []).append(text if text.endswith("\n") else f"{text}\n")


@dataclass
class _Gap:
    """The removed and added items between two that stay; ``left`` and ``right`` are their positions in theirs."""

    gone: list[Item]
    come: list[Item]
    left: int
    right: int

    def without(self, moves: Mapping[Item, Item]) -> _Gap:
        """Return the gap without the statements that only move."""
        come = set(moves.values())
        return _Gap(
            [each for each in self.gone if each not in moves],
            [each for each in self.come if each not in come],
            self.left,
            self.right,
        )


def _moves(gaps: Sequence[_Gap]) -> dict[Item, Item]:
    """Return the statements that move, unchanged, within the same block."""
    gone = [(each, gap) for gap in gaps for each in gap.gone if not each.parts]
    come = [(each, gap) for gap in gaps for each in gap.come]
    found: dict[Item, Item] = {}
    for one, gap in gone:
        same = [(other, to) for other, to in come if other.code == one.code]
        alone = len(same) == 1 and sum(each.code == one.code for each, _ in gone) == 1
        if alone and same[0][1] is not gap and not _says_little(one):
            found[one] = same[0][0]
    return found


@dataclass
class _Slot:
    """A position for an insertion; ``reason`` is how its surroundings differ."""

    container: Item
    at: int
    reason: str = ""
    certain: bool = True
    was: str = ""
    stands: str = ""


@dataclass
class _Row:
    """The parts of an item in three versions, and the pairs that correspond."""

    base: Item
    theirs: Item
    ours: Item
    to_theirs: Mapping[Item, Item]
    to_ours: Mapping[Item, Item]

    def __post_init__(self) -> None:
        self.from_theirs = {theirs: base for base, theirs in self.to_theirs.items()}

    def fresh(self) -> list[Item]:
        """Return the parts of ours that base lacks."""
        taken = set(self.to_ours.values())
        return [each for each in self.ours.parts if each not in taken]

    def own_codes(self) -> set[str]:
        """Return the parts of ours that differ from base, or that base lacks."""
        same = {ours for base, ours in self.to_ours.items() if base.code == ours.code}
        return {each.code for each in self.ours.parts if each not in same}

    def form_of(self, base: Item) -> Item | None:
        """Return the parts of ours at the position of a part of base, which may be other forms of it."""
        parts, places = self.base.parts, {each: at for at, each in enumerate(self.ours.parts)}
        at = parts.index(base)
        left = next((self.to_ours[each] for each in parts[:at][::-1] if each in self.to_ours), None)
        right = next((self.to_ours[each] for each in parts[at + 1 :] if each in self.to_ours), None)
        low = 0 if left is None else places[left] + 1
        high = len(places) if right is None else places[right]
        taken = set(self.to_ours.values())
        inside = [each for each in self.ours.parts[low:high] if each not in taken]
        if _is_docstring(base):
            return next(filter(_is_docstring, inside), None)
        return next((each for each in inside if any(is_form(base, part) for part in each.walk())), None)

    def at(self, theirs: Item) -> Region:
        """Return the position in ours for an item of theirs."""
        at = self.theirs.parts.index(theirs)
        return self._near(at - 1, at + 1)

    def region(self, gap: _Gap) -> Region:
        """Return the parts of ours at the position of a gap."""
        found = [self.to_ours.get(one) or _inside(one, self.ours) for one in gap.gone]
        there = [each for each in found if each is not None]
        blocks = {each.above for each in there}
        block = blocks.pop() if len(blocks) == 1 else None
        if block is None:
            return self._near(gap.left, gap.right)
        at = [block.parts.index(each) for each in there]
        return Region(block, min(at), max(at) + 1)

    def _near(self, left: int, right: int) -> Region:
        before = self._beside(range(left, -1, -1), behind=True)
        behind = self._beside(range(right, len(self.theirs.parts)), behind=False)
        if before.at is None or behind.at is None:
            slot = self._apart(before, behind)
            return Region(slot.container, slot.at, slot.at)
        is_left_nearer = before.item is not None and (behind.item is None or before.steps <= behind.steps)
        at = before.at if is_left_nearer else behind.at
        return Region(self.ours, at, at)

    def isimported(self, item: Item) -> bool:
        """Return whether other imports of the tree bind all names of an import."""
        here = {name for each in self.ours.parts if each.is_import for name in imported(each)}
        return all(name in here for name in imported(item))

    def gaps(self) -> Iterator[_Gap]:
        """Yield the gaps: removed and added items between items that stay in order."""
        base, theirs = self.base.parts, self.theirs.parts
        places = {each: at for at, each in enumerate(theirs)}
        last_b = last_t = -1
        moved: set[Item] = set()
        ends: list[tuple[int, int]] = []
        for at, each in enumerate(base):
            if each in self.to_theirs:
                place = places[self.to_theirs[each]]
                if place > (ends[-1][1] if ends else -1) and not self._is_jump(at, place, places):
                    ends.append((at, place))
                else:
                    moved.add(each)
        stays = {self.to_theirs[each] for each in moved}
        for end_b, end_t in (*ends, (len(base), len(theirs))):
            gone = [each for each in base[last_b + 1 : end_b] if each not in moved]
            come = [each for each in theirs[last_t + 1 : end_t] if each not in stays]
            if gone or come:
                yield _Gap(gone, come, last_t, end_t)
            last_b, last_t = end_b, end_t

    def _is_jump(self, at: int, place: int, places: Mapping[Item, int]) -> bool:
        """Return whether a definition moved down past others, which then seem to have moved up."""
        if not self.base.parts[at].is_definition:
            return False
        behind = [
            places[self.to_theirs[each]] for each in self.base.parts[at + 1 :] if each in self.to_theirs
        ]
        return sum(other < place for other in behind) > 1

    def slot(self, come: Sequence[Item]) -> _Slot:
        """Return the position for an insertion, beside its neighbours, and never in unreachable code."""
        found = self._place(come)
        before = found.container.parts[: found.at]
        if before and before[-1].is_exit:
            reason = "in this tree the statement before it leaves the block"
            return replace(found, reason=reason, certain=False, stands=before[-1].plain)
        return found

    def _place(self, come: Sequence[Item]) -> _Slot:
        theirs, ours = self.theirs.parts, self.ours
        first, last = theirs.index(come[0]), theirs.index(come[-1])
        left = self._beside(range(first - 1, -1, -1), behind=True)
        right = self._beside(range(last + 1, len(theirs)), behind=False)
        if left.at is None or right.at is None:
            return self._apart(left, right)
        low, high = left.at, right.at
        was = "".join(
            each.plain for each in (*theirs[max(0, first - 1) : first], *theirs[last + 1 : last + 2])
        )
        is_free = self._is_free(come)
        is_beside = left.is_next or right.is_next or ours.is_scope or not ours.parts
        if not is_beside and not all(map(_says_little, come)):
            return _Slot(ours, low, "the code next to it is not in this tree", certain=False, was=was)
        if low == high:
            return _Slot(ours, low)
        if low > high:
            reason = "" if is_free else "the code around it has another order in this tree"
            return _Slot(ours, low if left.steps <= right.steps else high, reason, was=was)
        stands = "".join(each.plain for each in ours.parts[max(0, low - 1) : high + 1])
        is_left_nearer = left.item is not None and left.steps <= right.steps
        if is_free or not _depend(come, ours.parts[low:high]):
            is_low = is_left_nearer or (left.item is None and right.steps > 1)
            return _Slot(ours, low if is_low else high)
        at = low if is_left_nearer else high
        return _Slot(ours, at, "the code next to it uses the same names", was=was, stands=stands)

    def _is_free(self, come: Sequence[Item]) -> bool:
        return self.ours.is_scope and all(
            each.is_definition or each.is_import or self.ours.kind == "ClassDef" for each in come
        )

    def _beside(self, order: Iterable[int], *, behind: bool) -> _Neighbour:
        """Return the nearest item of ours on one side, also if it is in a branch now; the end if there is none."""
        places = {each: at for at, each in enumerate(self.ours.parts)}
        fresh = {each.code: each for each in self.fresh()}
        steps = 0
        for steps, at in enumerate(order, 1):
            base = self.from_theirs.get(self.theirs.parts[at])
            item = fresh.get(self.theirs.parts[at].code) if base is None else self.to_ours.get(base)
            if item is not None:
                return _Neighbour(item, steps, places[item] + behind)
            inside = _inside(base, self.ours) if base is not None and steps == 1 else None
            if inside is not None:
                return _Neighbour(inside, steps, None)
        return _Neighbour(None, steps, 0 if behind else len(self.ours.parts))

    def _apart(self, left: _Neighbour, right: _Neighbour) -> _Slot:
        """Return the position of an insertion whose neighbour is in another block now."""
        if left.at is not None or right.at is not None:
            return _Slot(self.ours, left.at if left.at is not None else right.at or 0)
        item, behind = (left.item, 1) if left.steps <= right.steps else (right.item, 0)
        assert item is not None  # What has no place in the block is in another.
        assert item.above is not None  # So it is in one.
        at = item.above.parts.index(item) + behind
        return _Slot(item.above, at, "the code next to it is in another block in this tree")


@dataclass(frozen=True)
class _Neighbour:
    """A neighbour, its distance, and the position that follows from it: None if it is in another block."""

    item: Item | None
    steps: int
    at: int | None

    @property
    def is_next(self) -> bool:
        """Whether no item that the tree lacks was between the position and the neighbour, or the end of the block."""
        return self.steps <= (self.item is not None)


def _same_shape(*items: Item) -> bool:
    kinds = {item.kind for item in items}
    return len(kinds) == 1 or kinds <= {"if", "elif"} or kinds <= {"FunctionDef", "AsyncFunctionDef"}


def _stripped(lead: str) -> list[str]:
    return [line.strip() for line in lead.splitlines() if line.strip()]


def _taken(old: Sequence[str], new: Sequence[str]) -> Counter[str] | None:
    """Return the lines that were removed from a text; None if lines were added."""
    rest = iter(old)
    return Counter(old) - Counter(new) if all(line in rest for line in new) else None


def _without(text: str, gone: Counter[str]) -> str:
    """Return a text without given lines, each as often as counted."""
    left, found = Counter(gone), []
    for line in text.splitlines(keepends=True):
        if left[line.strip()] > 0:
            left[line.strip()] -= 1
        else:
            found.append(line)
    return "".join(found)


def _merged_heads(was: str, becomes: str, stands: str) -> str:
    """Merge headers; the keyword of a branch, `if` or `elif`, is merged apart from its condition."""
    heads = [text.partition(" ") for text in (was, becomes, stands)]
    if {head[0] for head in heads} <= {"if", "elif"}:
        (old, _, asked), (new, _, asks), (here, _, asking) = heads
        return f"{here if old == new else new} {tokens.merged(asked, asks, asking)}"
    return tokens.merged(was, becomes, stands)


_AROUND = {"elif": "if a:\n    pass\n", "except": "try:\n    pass\n"}


def _valid(made: str, kind: str = "") -> str:
    """Return the text if it parses as a statement, or as a header of a ``kind``; else raise ClashError."""
    try:
        ast.parse(f"{_AROUND.get(kind, '')}{made.rstrip()}\n    pass\n" if kind else made)
    except (SyntaxError, ValueError):
        raise tokens.ClashError("merging both versions gives invalid Python") from None
    return made


def _bare(item: Item) -> str:
    """Return an item's header without indentation."""
    return tokens.shifted(item.head, item.indent, "")


def _says_little(item: Item) -> bool:
    """Return whether a statement is a docstring, ``pass`` or an import, whose absence is no conflict."""
    node = item.nodes[0] if len(item.nodes) == 1 else None
    return isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def _behind_imports(block: Item) -> int:
    """Return the position of a new import: after those above all definitions, or at the beginning."""
    end = next((at for at, each in enumerate(block.parts) if each.is_definition), len(block.parts))
    at = [at for at, each in enumerate(block.parts[:end]) if each.is_import]
    return at[-1] + 1 if at else int(_docstring_of(block) is not None)


def _is_docstring(item: Item) -> bool:
    return bool(_documentation(item))


def _documentation(item: Item) -> str:
    """Return the text, without white space, of a statement that is only a string; else an empty string."""
    node = item.nodes[0] if len(item.nodes) == 1 else None
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    value = node.value.value if is_text else None  # type: ignore[union-attr]
    return " ".join(value.split()) if isinstance(value, str) else ""


def _docstring_of(item: Item) -> Item | None:
    """Return the docstring of a definition or a file."""
    is_documented = item.parts and (item.is_scope or item.is_function) and _is_docstring(item.parts[0])
    return item.parts[0] if is_documented else None


def _is_unique(item: Item) -> bool:
    """Return whether names identify an item in its scope: a definition, or an assignment of a class or file."""
    is_value = item.kind in {"Assign", "AnnAssign"} and item.name.isidentifier()
    return item.is_definition or (is_value and item.above is not None and item.above.is_scope)


def _inner(item: Item) -> str:
    """Return the indentation of an item's body."""
    if item.parts:
        return item.parts[0].indent
    return item.indent + _STEP if item.above is not None else ""


def _inside(base: Item, ours: Item) -> Item | None:
    """Return the statement of a function if it occurs once, in another block now; else None."""
    function, was = ours.function, base.function
    if function is None or was is None or len(base.words) < 4:
        return None
    there = [each for each in function.walk() if each.kind == base.kind and each.code == base.code]
    here = [each for each in was.walk() if each.kind == base.kind and each.code == base.code]
    return there[0] if len(there) == len(here) == 1 else None


def _moved_to(base: Item, ours: Item) -> str:
    """Return a note on the other function of the file that contains a statement; empty if none does."""
    if len(base.words) < 4:
        return ""
    root = ours.around[0] if ours.around else ours
    sites = [each.site for each in root.walk() if each.kind == base.kind and each.code == base.code]
    return f": it is in {sites[0]}" if len(sites) == 1 and sites[0] != ours.site else ""


def imported(item: Item) -> list[str]:
    """Return an import statement as imports of one name each."""
    node = item.nodes[0]
    if isinstance(node, ast.ImportFrom):
        source = "." * node.level + (node.module or "")
        return [f"from {source} import {ast.unparse(alias)}" for alias in node.names]
    if isinstance(node, ast.Import):
        return [f"import {ast.unparse(alias)}" for alias in node.names]
    return []


def _joined(base: Item, theirs: Item | None, ours: Item) -> str:
    """Return a `from` import with names added and removed; an empty string for other statements."""
    kinds = {base.kind, ours.kind, "ImportFrom" if theirs is None else theirs.kind}
    if kinds != {"ImportFrom"}:
        return ""
    had, has, here = (imported(item) if item is not None else [] for item in (base, theirs, ours))
    names = [name for name in here if name in has or name not in had]
    names += [name for name in has if name not in had and name not in here]
    if not names:
        return ""
    start = names[0].partition(" import ")[0]
    listed = [name.partition(" import ")[2] for name in names]
    line = f"{start} import {', '.join(listed)}\n"
    if len(line) <= _WIDTH and "(" not in ours.own:
        return line
    return f"{start} import (\n" + "".join(f"{_STEP}{name},\n" for name in listed) + ")\n"


def _bound(item: Item) -> set[str]:
    """Return the names that a function binds, its parameters included."""
    names = {
        node.id
        for top in item.nodes
        for node in ast.walk(top)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return names | {node.arg for top in item.nodes for node in ast.walk(top) if isinstance(node, ast.arg)}


def _renamed_locals(base: Item, ours: Item, pairs: Mapping[Item, Item]) -> dict[str, str]:
    """Return the locals and parameters that have another name in this tree's function."""
    known = dict(pairs)
    known[base] = ours
    found = renames(known, base, ours) | _renamed_parameters(base, ours)
    before, after = _bound(base), _bound(ours)
    return {
        old: new
        for old, new in found.items()
        if old in before
        and new in after
        and old not in after
        and new not in before
        and not keyword.iskeyword(new)
    }


def _renamed_parameters(base: Item, ours: Item) -> dict[str, str]:
    """Return the parameters that have another name at the same position, if their number is equal."""
    one, other = (_parameters(item) for item in (base, ours))
    if len(one) != len(other):
        return {}
    return {a: b for a, b in zip(one, other, strict=True) if a != b and b not in one and a not in other}


def _parameters(item: Item) -> list[str]:
    node = item.nodes[0]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    given = node.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _depend(come: Sequence[Item], between: Sequence[Item]) -> bool:
    """Return whether the order of two runs of statements matters: one leaves, or binds a name that the other uses."""
    bound, used = _effects(come)
    other_bound, other_used = _effects(between)
    if any(_leaves(each) for each in (*come, *between)):
        return True
    return bool(bound & (other_bound | other_used) or other_bound & used)


def _effects(items: Sequence[Item]) -> tuple[set[str], set[str]]:
    """Return the names and attributes that statements bind, and those that they use."""
    bound: set[str] = set()
    used: set[str] = set()
    for item in items:
        for top in item.nodes:
            for node in ast.walk(top):
                if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
                    said = ast.unparse(node.value) if isinstance(node, ast.Subscript) else ast.unparse(node)
                    (bound if isinstance(node.ctx, (ast.Store, ast.Del)) else used).add(said)
                elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    bound.add(node.name)
        if item.is_import:
            bound.update(name.rpartition(" ")[2] for name in imported(item))
    return bound, used


def _leaves(item: Item) -> bool:
    """Return whether a statement may leave its block."""
    exits = (ast.Return, ast.Raise, ast.Continue, ast.Break)
    return any(isinstance(node, exits) for top in item.nodes for node in ast.walk(top))
