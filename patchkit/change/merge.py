"""Merge three versions of a Python file edit by edit: the changes between two of them are made in the third.

An edit is made at the statement, branch, definition or element that it changes, wherever that is now. An addition is
placed beside its neighbours. If these are missing or have other code, the edit is a conflict.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from patchkit.change import tokens
from patchkit.change.alignment import Alignment, is_incidental, moved_items, noted_place
from patchkit.change.comments import (
    comments,
    loses_comments,
    merged_blank_lines,
    remaining_comments,
    remaining_lead,
    spaced,
    spaced_as,
    stripped_lines,
    with_added,
)
from patchkit.change.correspondence import Correspondence
from patchkit.change.edits import EditLog, EditOutcome, Outcome
from patchkit.change.effects import order_matters
from patchkit.change.imports import bound, import_of, import_place, imported, joined
from patchkit.change.outline import NoOutlineError, dedented, outline
from patchkit.change.output import Output
from patchkit.change.policy import Policy
from patchkit.change.regions import Region, blocks_of, marked_numbers
from patchkit.change.sequence import codes, disturbances
from patchkit.change.statements import is_same_code, merged_header, merged_statement
from patchkit.lines import lines_with_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from patchkit.change.alignment import Chunk
    from patchkit.change.edits import Refusal
    from patchkit.change.outline import Item

    Elsewhere = Callable[[Item], Item | None]

_COMMENTED = "applying it would delete a comment of this tree"
_REWORDED = "this tree has another comment above it, which was kept"


@dataclass
class Merge:
    """Makes the edits of a change in the outlines of this tree; ``elsewhere`` finds a definition that moved.

    Imports of the names in ``kept`` stay.
    """

    elsewhere: Elsewhere
    log: EditLog = field(default_factory=EditLog)
    correspondence: Correspondence = field(default_factory=Correspondence)
    policy: Policy = Policy.ADAPT
    kept: frozenset[str] = frozenset()
    output: Output = field(default_factory=Output)
    rename_notes: set[str] = field(default_factory=set)
    """Notes on the renames that were followed."""
    _names: dict[Item, dict[str, str]] = field(default_factory=dict)
    _merged: list[tuple[Item, Item, Item]] = field(default_factory=list)
    """Base, theirs and ours of each function, or statement outside of functions, of which parts were merged."""

    def make(self, base: Item, theirs: Item, ours: Item) -> None:
        """Make the changes from ``base`` to ``theirs`` in ``ours``; all three are files."""
        # An item added at the end may include the comments that were there.
        tail = self._merged_comments(base, theirs, ours, [item.tail for item in (base, theirs, ours)])
        self.output.write_tail(ours, tail)
        self._merge_parts(base, theirs, ours)

    def merge_moved(self, base: Item, theirs: Item, reason: str, owner: Item | None = None) -> None:
        """Make the changes in the parts of a file that the tree lacks, or of a class (``owner``), where these are."""
        pairs = self.correspondence.parts(base, theirs)
        for one, other in pairs.items():
            if one.dedented == other.dedented:
                continue
            if one.is_definition:
                self._change_elsewhere(one, other)
            elif owner or not (one.is_import or self._change_value_elsewhere(one, other)):
                self.log.record(owner or one, Outcome.NO_SITE, reason, theirs=other)
        for item in (item for item in theirs.children if item not in pairs.values()):
            if owner or not item.is_import:
                self.log.record(owner or item, Outcome.NO_SITE, reason, theirs=item)

    def marked(self, root: Item, name: str, numbers: Mapping[EditOutcome, int]) -> tuple[str, frozenset[int]]:
        """Return a file with markers at its conflicts, and the numbers of the edits in conflict.

        ``name`` is the name of the change in markers, ``numbers`` that of each edit.
        """
        conflicting: list[tuple[Region, int, str, str]] = []
        for edit in self.log.edits:
            if edit.region is not None and edit in numbers:
                base_text, wanted = (
                    self._renamed(text, edit.region.inside) for text in (edit.base_text, edit.wanted)
                )
                conflicting.append((edit.region, numbers[edit], base_text, wanted))
        blocks = blocks_of(name, conflicting)
        text = self.output.render(root, blocks)
        return text, marked_numbers(text, blocks)

    def disturbing(self) -> Iterator[tuple[EditOutcome, str]]:
        """Yield the edits that leave a statement unreachable, or reverse the order of this tree's, and the reason."""
        for versions in self._merged:
            _, _, ours = versions
            text = tokens.shifted(self.output.render(ours), ours.indent, "")
            try:
                result = outline(text)
            except NoOutlineError:  # Such as deeper nesting than is followed.
                continue
            around = {*ours.walk()}
            edits = [edit for edit in self.log.edits if edit.key is not None and edit.place in around]
            for reason, disturbed in disturbances(versions, result, self.correspondence):
                concerned = [
                    edit for edit in edits if edit.key and not disturbed.isdisjoint(codes(edit.key[0].nodes))
                ]
                yield from ((edit, reason) for edit in concerned or edits)

    def _merge_item(self, base: Item, theirs: Item, ours: Item) -> None:
        """Make the changes between two versions of an item in the tree's version."""
        lead = self._merged_comments(base, theirs, ours, [item.lead for item in (base, theirs, ours)])
        if lead != ours.lead:
            self.output.write_lead(ours, lead)
        base_text, theirs_text = (self._renamed(item.own_dedented, ours) for item in (base, theirs))
        if base_text == theirs_text:
            return
        # A class is compared part by part.
        if ours.kind != "ClassDef" and theirs.code == ours.code and base.code != theirs.code:
            self._record_present(base, theirs, ours)
            return
        is_nested = (
            base.children and theirs.children and ours.children and base.form == theirs.form == ours.form
        )
        if is_nested and (
            ours.own_dedented != base_text
            or self._has_lost_comment(base, theirs, ours)
            or self.log.is_refused_inside(base, theirs)
        ):
            self._merge_header(base, theirs, ours)
            self._merge_parts(base, theirs, ours)
        elif self.log.is_refused((theirs, ""), base=base, theirs=theirs, region=Region.of(ours)):
            pass
        elif ours.own_dedented == base_text:
            self.output.write(ours, theirs_text)
            self.log.record(theirs, Outcome.LANDED, ours=ours, key=(theirs, ""))
        elif theirs.code == ours.code and base.code != theirs.code:
            self._record_present(base, theirs, ours)
        else:
            self._merge_texts(base, theirs, ours, (base_text, theirs_text))

    def _has_lost_comment(self, base: Item, theirs: Item, ours: Item) -> bool:
        """Return whether a comment behind the last statement, which this tree removed, is inside in the change."""
        behind, ours_behind = (stripped_lines(item.lead_behind) for item in (base, ours))
        lost = set(behind).difference(ours_behind)
        return self.policy is Policy.ADAPT and not lost.isdisjoint(stripped_lines(theirs.own) if lost else ())

    def _record_present(self, base: Item, theirs: Item, ours: Item) -> None:
        """Record that the code of an edit is already there, and whether its comments are."""
        if loses_comments(theirs.own_dedented, base.own_dedented, ours.own_dedented):
            reason = "this tree has the code, without the comment of the change"
            self.log.record(base, Outcome.KEPT, reason, theirs=theirs, ours=ours)
        else:
            self.log.record(theirs, Outcome.ALREADY)

    def _merge_texts(self, base: Item, theirs: Item, ours: Item, texts: tuple[str, str]) -> None:
        """Make the changes in an item as a whole; ``texts`` are those of base and theirs with this tree's names."""
        base_text, theirs_text = texts
        ours_text = ours.own_dedented
        if base.code == ours.code and not loses_comments(ours_text, base_text, theirs_text):
            result = theirs_text
        elif base.code == theirs.code:
            self._record_kept(base, theirs, ours, "this tree's version differs")
            return
        elif (
            (self.policy is Policy.REFUSE and not base.is_import)
            or base.children
            or theirs.children
            or ours.children
        ):
            self.log.conflict(base, theirs, ours, "this tree's version differs too much to merge")
            return
        else:
            try:
                result = merged_statement(base_text, theirs_text, ours_text)
            except tokens.ClashError as error:
                imports = joined(base, theirs, ours)
                if not imports:
                    self.log.conflict(base, theirs, ours, str(error))
                    return
                result = imports
            if loses_comments(ours_text, base_text, result):
                self.log.conflict(base, theirs, ours, _COMMENTED)
                return
            if result == ours_text:
                self.log.record(theirs, Outcome.ALREADY)
                return
        self.output.write(ours, result)
        is_same = base.code == ours.code and result == theirs_text
        reason = "" if is_same else "this tree's statement differs"
        self.log.record(base, Outcome.made(reason), reason, theirs=theirs, ours=ours, key=(theirs, ""))

    def _record_kept(self, base: Item, theirs: Item, ours: Item, what: str) -> None:
        """Record that the tree's comments and layout of an item are kept, unless the change's comments are there."""
        base_comments, theirs_comments, ours_comments = (
            comments(item.own_dedented) for item in (base, theirs, ours)
        )
        is_layout = base_comments == theirs_comments
        if (is_layout and self.policy is Policy.REFUSE) or (
            not is_layout
            and not (
                theirs_comments - base_comments - ours_comments
                or (base_comments - theirs_comments) & ours_comments
            )
        ):
            self.log.record(theirs, Outcome.ALREADY)
            return
        kept = "layout" if is_layout else "comment"
        self.log.record(
            base, Outcome.KEPT, f"{what}, so its {kept} was not changed", theirs=theirs, ours=ours
        )

    def _merged_comments(self, base: Item, theirs: Item, ours: Item, texts: Sequence[str]) -> str:
        """Return the changed comments above an item or at the end of a file, those of three versions; record it.

        The tree's comments are kept if they are others.
        """
        base_text, theirs_text, ours_text = texts
        old, new, current = map(stripped_lines, texts)
        if old == new:
            return merged_blank_lines(base_text, theirs_text, ours_text)
        comments = remaining_comments(old, new, ours_text)
        if new == current or comments == ours_text:
            self.log.record(theirs, Outcome.ALREADY)
            return spaced(base_text, theirs_text, ours_text, ours_text)
        if current == old:
            self.log.record(theirs, Outcome.LANDED)
            return tokens.shifted(theirs_text, theirs.indent, ours.indent)
        if comments is not None:
            self.log.record(theirs, Outcome.LANDED)
            return spaced(base_text, theirs_text, ours_text, comments)
        where = "above it" if base.parent is not None else "at the end of the file"
        reason = f"this tree has another comment {where}, which was kept"
        is_added = not Counter(old) - Counter(new)
        has_own = loses_comments(ours_text, base_text, theirs_text)
        if self.policy is Policy.REFUSE or (has_own and not is_added):
            self.log.record(base, Outcome.KEPT, reason, theirs=theirs, ours=ours)
            return ours_text
        if not has_own:
            reason = "" if is_added else f"this tree has removed the comment {where} that the change replaces"
        self.log.record(base, Outcome.made(reason), reason, theirs=theirs, ours=ours)
        result = with_added(base_text, tokens.shifted(theirs_text, theirs.indent, ours.indent), ours_text)
        return (
            spaced(base_text, theirs_text, ours_text, result) if current else spaced_as(theirs_text, result)
        )

    def _merge_header(self, base: Item, theirs: Item, ours: Item) -> None:
        base_text, theirs_text = (self._renamed(item.head_dedented, ours) for item in (base, theirs))
        ours_text, region = ours.head_dedented, Region(ours)
        sides = base.head_dedented, theirs.head_dedented
        if (
            base_text == theirs_text
            or not base_text
            or self.log.is_refused((theirs, "head"), base=base, theirs=theirs, region=region)
        ):
            return
        result, reason = theirs_text, "this tree's header differs"
        if ours_text.split() == base_text.split():
            reason = ""
        elif tokens.words(base_text) == tokens.words(theirs_text):
            self._record_kept(base, theirs, ours, reason)
            return
        elif tokens.words(ours_text) == tokens.words(theirs_text):
            self.log.record(theirs, Outcome.ALREADY)
            return
        elif self.policy is Policy.REFUSE:
            if not is_same_code(base_text, ours_text, ours.kind) or loses_comments(
                ours_text, base_text, theirs_text
            ):
                self.log.reject(base.site, reason, sides, region)
                return
            reason = ""
        else:
            try:
                result = merged_header(base_text, theirs_text, ours_text, ours.kind)
            except tokens.ClashError as error:
                self.log.reject(base.site, str(error), sides, region)
                return
            if result == ours_text:
                self.log.record(theirs, Outcome.ALREADY)
                return
        self.output.write_head(ours, result)
        self.log.record(base, Outcome.made(reason), reason, theirs=theirs, ours=ours, key=(theirs, "head"))

    def _renamed(self, text: str, ours: Item) -> str:
        """Return a text with the names that locals and parameters have in this tree's function."""
        function = ours.function
        names = self._names.get(function, {}) if function is not None else {}
        result = tokens.renamed(text, names)
        if result != text:
            self.rename_notes.update(
                f"{old} is named {new} in {ours.site} of this tree" for old, new in names.items()
            )
        return result

    def _is_same(self, base: Item, ours: Item) -> bool:
        """Return whether the tree's item equals the one that is removed, apart from renames."""
        if base.code == ours.code or self.policy is Policy.REFUSE:
            return base.code == ours.code
        return tokens.words(self._renamed(base.own_dedented, ours)) == tokens.words(ours.own_dedented)

    def _is_within(self, base: Item, ours: Item) -> bool:
        """Return whether everything in the tree's item is in the one that is removed: it may lack statements of it."""
        if self._is_same(base, ours):
            return True
        heads = tokens.words(self._renamed(base.head_dedented, ours)), tokens.words(ours.head_dedented)
        if (
            self.policy is Policy.REFUSE
            or base.kind != ours.kind
            or heads[0] != heads[1]
            or not ours.children
        ):
            return False
        rest = iter(base.children)
        return all(any(self._is_within(one, part) for one in rest) for part in ours.children)

    def _merge_parts(self, base: Item, theirs: Item, ours: Item) -> None:
        """Make the changes between the parts of two versions of an item in the tree's version."""
        to_theirs = self.correspondence.parts(base, theirs)
        to_ours = self.correspondence.parts(base, ours)
        if self.policy is Policy.ADAPT and ours.is_function and ours not in self._names:
            self._names[ours] = self.correspondence.names(base, ours)
        if not ours.is_scope and all(item.is_scope for item in ours.ancestors):
            self._merged.append((base, theirs, ours))
        alignment = Alignment(base, theirs, ours, to_theirs, to_ours, self.policy)
        chunks = list(alignment.chunks())
        moves = {} if base.is_scope else moved_items(chunks)
        conflicting: set[Item] = set()
        for one, other in to_theirs.items():
            if one.dedented != other.dedented:
                first = len(self.log.edits)
                self._change(alignment, one, other)
                is_conflict = any(edit.outcome is Outcome.CONFLICT for edit in self.log.edits[first:])
                conflicting |= {other} if is_conflict and not other.children else set()
        for one, other in moves.items():
            self._move(alignment, one, other)
        for chunk in (chunk.without_moves(moves) for chunk in chunks):
            self._add_docstring(alignment, chunk)
            if not (chunk.removed or chunk.added):
                continue
            neighbours = {
                *theirs.children[max(0, chunk.left) : chunk.left + 1],
                *theirs.children[chunk.right : chunk.right + 1],
            }
            is_named = any(item.is_definition or item.is_import for item in (*chunk.removed, *chunk.added))
            is_together = self.policy is Policy.REFUSE and not is_named  # Nothing may be adapted.
            refusal = self._refused_removal(alignment, chunk)
            if conflicting & neighbours and not base.is_scope:
                self._reject_chunk(alignment, chunk, "it is next to a conflict")
            elif refusal:
                self._reject_chunk(alignment, chunk, refusal)
            elif not (chunk.removed and chunk.added) or (base.is_scope and not is_together):
                self._exchange(alignment, chunk)
            else:
                self._replace(alignment, chunk)
        top = self.output.first(ours)
        if top is not None and top is not ours.children[0] and top in alignment.only_in_ours():
            # Its blank lines separated it from what was deleted.
            self.output.write_lead(top, spaced_as(ours.children[0].lead, self.output.lead(top)))

    def _move(self, alignment: Alignment, base: Item, theirs: Item) -> None:
        """Move a statement to its new place, with the tree's text."""
        ours = alignment.to_ours.get(base)
        if ours is None and any(theirs.code == item.code for item in alignment.only_in_ours()):
            self.log.record(theirs, Outcome.ALREADY)
            return
        if ours is None or ours.children:
            reason = f"the moved statement is not in this tree{noted_place(base, alignment.ours)}"
            self.log.reject(base.site, reason, ("", theirs.dedented), alignment.region_at(theirs))
            return
        point = alignment.insertion_point([theirs])
        position = ours.position
        if point.container is not alignment.ours or not point.is_usable:
            self.log.conflict(
                base, theirs, ours, point.reason or "its new place is in another block in this tree"
            )
        elif point.index in {position, position + 1}:
            self.log.record(theirs, Outcome.ALREADY)
        elif not self.log.is_refused((theirs, ""), base=base, theirs=theirs, region=Region.of(ours)):
            self.output.delete(ours)
            if ours.dedented == base.dedented:
                self._put(alignment.ours, point.index, [theirs], ours.indent)
            else:
                self.output.insert(alignment.ours, point.index, ours.text)
            low, high = sorted((position, point.index))
            own = set(alignment.only_in_ours())
            passed = [item for item in alignment.ours.children[low:high] if item in own]
            reason = point.reason
            if not reason and order_matters([ours], passed):
                reason = "the code that it moves past uses the same names"
            elif not reason and not self._is_same(base, ours):
                reason = "this tree's version of the moved statement differs"
            self.log.record(base, Outcome.made(reason), reason, theirs=theirs, ours=ours, key=(theirs, ""))

    def _change(self, alignment: Alignment, base: Item, theirs: Item) -> None:
        ours = alignment.to_ours.get(base)
        if ours is not None:
            refusal = self._refused_change(alignment, base)
            if refusal:
                self.log.conflict(base, theirs, ours, refusal)
            else:
                self._merge_item(base, theirs, ours)
            return
        if base.is_definition:
            self._change_elsewhere(base, theirs)
            return
        inside = alignment.displaced(base)
        if inside is not None:
            self._merge_item(base, theirs, inside)
        elif any(theirs.code == item.code for item in alignment.only_in_ours()):
            self.log.record(theirs, Outcome.ALREADY)
        elif base.code == theirs.code:
            reason = "only a comment or the layout changes, and this tree does not have the statement"
            self.log.record(base, Outcome.KEPT, reason, theirs=theirs)
        elif (base.is_import and self._add_names(alignment, base, theirs)) or self._change_value_elsewhere(
            base, theirs
        ):
            pass
        else:
            reason = f"the changed statement is not in this tree{noted_place(base, alignment.ours)}"
            self.log.reject(base.site, reason, (base.dedented, theirs.dedented), alignment.region_at(theirs))

    def _change_elsewhere(self, base: Item, theirs: Item) -> None:
        """Make the edits of a definition that has moved."""
        place = self.elsewhere(base)
        if self.policy is Policy.REFUSE:
            self.log.record(base, Outcome.ALREADY)
        elif place is not None:
            self._merge_item(base, theirs, place)
        elif base.kind == "ClassDef" and theirs.kind == "ClassDef":
            self.merge_moved(base, theirs, f"the tree has no {base.site}", base)
        else:
            self.log.record(base, Outcome.NO_SITE, f"the tree has no {base.site}", theirs=theirs)

    def _change_value_elsewhere(self, base: Item, theirs: Item) -> bool:
        """Make the change of a module's value that has moved; return whether it has."""
        is_value = base.is_unique and not base.is_definition and self.policy is Policy.ADAPT
        place = (self.elsewhere(base) or self.elsewhere(theirs)) if is_value else None
        if place is not None:
            self._merge_item(base, theirs, place)
        return place is not None

    def _add_names(self, alignment: Alignment, base: Item, theirs: Item) -> bool:
        """Add the names of an import statement that the tree lacks, or has at another place."""
        alike = {(item.kind, item.name): item for item in (theirs, base, *alignment.only_in_ours())}
        home = alike[base.kind, base.name]
        if self.policy is Policy.ADAPT and theirs.name == base.name and home not in {theirs, base}:
            self._merge_item(base, theirs, home)
            return True
        unmatched = [name for name in alignment.unimported(theirs) if name not in imported(base)]
        if not unmatched:
            self.log.record(theirs, Outcome.ALREADY)
            return True
        indent = alignment.ours.children[0].indent if alignment.ours.children else ""
        text = "".join(f"{indent}{name}\n" for name in unmatched)
        self.output.insert(alignment.ours, import_place(alignment.ours), text)
        self.log.record(theirs, Outcome.LANDED)
        return True

    def _refused_change(self, alignment: Alignment, base: Item) -> str:
        """Return why an item may not be changed or removed where it is in this tree; empty if it may be."""
        ours = alignment.to_ours.get(base)
        if ours is None or base.is_import:
            return ""
        if base.is_definition and base.name != ours.name and self.policy is Policy.REFUSE:
            return f"{base.name} has another name in this tree"
        number = alignment.copies(base, ours)
        return f"this code is there {number} times" if number > 1 else ""

    def _refused_removal(self, alignment: Alignment, chunk: Chunk) -> str:
        """Return why the code of a chunk may not be removed where it is in this tree; empty if it may be."""
        counterparts = [
            alignment.to_ours.get(one) for one in chunk.removed if not (one.is_definition or one.is_import)
        ]
        places = [item.position for item in counterparts if item is not None]
        if self.policy is Policy.REFUSE and places:
            if len(places) < len(counterparts):
                return "part of the removed code is not in this tree"
            if not set(alignment.only_in_ours()).isdisjoint(
                alignment.ours.children[min(places) : max(places)]
            ):
                return "this tree has other code between the removed statements"
        return next(filter(None, (self._refused_change(alignment, one) for one in chunk.removed)), "")

    def _exchange(self, alignment: Alignment, chunk: Chunk) -> None:
        """Delete items and insert others; statements are not inserted where one of those that go is a conflict."""
        first = len(self.log.edits)
        for one in chunk.removed:
            self._delete(alignment, one)
        statements = [item for item in chunk.added if not (item.is_definition or item.is_import)]
        is_conflict = any(edit.outcome is Outcome.CONFLICT for edit in self.log.edits[first:])
        if is_conflict and statements:
            self._reject_chunk(
                alignment, replace(chunk, removed=[], added=statements), "it is next to a conflict"
            )
        added = [item for item in chunk.added if not (is_conflict and item in statements)]
        if added:
            self._insert(alignment, replace(chunk, added=added))

    def _delete(self, alignment: Alignment, base: Item) -> None:
        if base.is_import:
            self._delete_import(alignment, base)
            return
        ours = alignment.counterpart(base)
        if ours is None and base.is_definition:
            ours = self.elsewhere(base)
        if ours is None:
            form = alignment.form_of(base)
            if form is None:
                self.log.record(base, Outcome.ALREADY)
            else:
                self.log.conflict(base, None, form, "the deleted code has another form in this tree")
        elif self.log.is_refused((base, ""), base=base, region=Region.of(ours)):
            pass
        elif loses_comments(ours.own, base.own, ""):
            self.log.conflict(base, None, ours, _COMMENTED)
        elif self._is_within(base, ours):
            self._remove(alignment, base, ours)
            is_displaced = ours.parent is not alignment.ours and not base.is_definition
            reason = "the deleted code is in another block in this tree" if is_displaced else ""
            if not self._is_same(base, ours):
                reason = "this tree's version of the deleted code lacks statements of it"
            self.log.record(base, Outcome.made(reason), reason, ours=ours, key=(base, ""))
        else:
            self.log.conflict(base, None, ours, "the deleted code differs in this tree")

    def _remove(self, alignment: Alignment, base: Item, ours: Item) -> None:
        """Delete an item with its comments, but not this tree's own comments and blank lines above it."""
        self.output.delete(ours, remaining_lead(base.lead, ours.lead))
        above = ours.parent.children[: ours.position] if ours.parent is not None else ()
        missing = set(stripped_lines(base.lead)).difference(stripped_lines(ours.lead))
        # Code that came in between has the comments above it now.
        for previous in reversed(above if missing else ()):
            if previous not in alignment.only_in_ours():
                return
            lead = remaining_comments(sorted(missing), [], previous.lead)
            if lead is not None and lead != previous.lead:
                self.output.write_lead(previous, lead)

    def _delete_import(self, alignment: Alignment, base: Item) -> None:
        """Remove the names of an import from each import of this tree that has them."""
        stays = {name for item in alignment.theirs.children for name in imported(item)}
        removed = {name for name in imported(base) if name not in stays and bound(name) not in self.kept}
        homes = [
            item
            for item in alignment.ours.children
            if item.is_import and removed.intersection(imported(item))
        ]
        before, after = (
            Counter(name for item in version.children for name in imported(item))
            for version in (alignment.base, alignment.ours)
        )
        paired = alignment.to_ours.get(base)
        if homes and any(after[name] > before[name] for name in removed):
            if self.policy is Policy.REFUSE:
                self.log.conflict(base, None, homes[0], "it is imported more than once in this tree")
                return
            homes = [paired] if paired in homes else homes
        if self.log.is_refused((base, ""), base=base, region=Region.of(homes[0]) if homes else None):
            return
        if not homes:
            self.log.record(base, Outcome.ALREADY)
        for ours in homes:
            left = [name for name in imported(ours) if name not in removed]
            if loses_comments(ours.own, base.own, ""):
                self.log.conflict(base, None, ours, _COMMENTED)
            elif left:
                self.output.write(ours, import_of(left, ours))
                reason = "this tree's import has more names"
                self.log.record(base, Outcome.CHANGED, reason, ours=ours, key=(base, ""))
            else:
                self._remove(alignment, base, ours)
                self.log.record(base, Outcome.LANDED, ours=ours, key=(base, ""))

    def _replace(self, alignment: Alignment, chunk: Chunk) -> None:
        """Replace statements by others."""
        counterparts = [alignment.counterpart(one) for one in chunk.removed]
        pairs = [
            (one, item) for one, item in zip(chunk.removed, counterparts, strict=True) if item is not None
        ]
        codes = {item.code for item in alignment.ours.children}
        is_there = alignment.own_codes().issuperset(item.code for item in chunk.added)
        if is_there and codes.isdisjoint(one.code for one in chunk.removed):
            self.log.record(chunk.added[0], Outcome.ALREADY)
            return
        refusal = self._refused_replacement(alignment, chunk, pairs)
        if refusal:
            self._reject_chunk(alignment, chunk, refusal)
            return
        if not pairs:
            self._insert(alignment, chunk)
            return
        first, region = pairs[0][1], Region.of(pairs[0][1])
        for _, item in pairs:
            self.output.delete(item)
        own_lead = loses_comments(first.lead, *chunk.texts)
        if own_lead:
            lead = remaining_comments(stripped_lines(pairs[0][0].lead), [], first.lead)
            self.output.insert(region.inside, region.start, lead or first.lead)
        self._put(region.inside, region.start, chunk.added, first.indent, alignment.gone_comments(chunk))
        is_same = all(self._is_same(one, item) for one, item in pairs)
        differs = "this tree's version of the replaced code lacks statements of it"
        reason = alignment.displacement(chunk, first) if is_same else differs
        if own_lead and not reason and self.policy is Policy.ADAPT:
            reason = _REWORDED
        base_text, wanted = chunk.texts
        edit = EditOutcome(
            alignment.base.site,
            Outcome.made(reason),
            reason,
            "" if is_same else base_text,
            "" if is_same else dedented(item for _, item in pairs),
            wanted,
            first,
            (chunk.added[0], ""),
        )
        self.log.edits.append(edit)

    def _refused_replacement(
        self, alignment: Alignment, chunk: Chunk, pairs: Sequence[tuple[Item, Item]]
    ) -> Refusal | str:
        """Return why the statements of a chunk may not be replaced by others; empty if they may be."""
        there = dict(pairs)
        for one in (one for one in chunk.removed if one not in there):
            # A docstring that has another text in this tree is not absent.
            if not is_incidental(one) or (one.documentation and alignment.form_of(one)):
                return f"part of the replaced code is not in this tree{noted_place(one, alignment.ours)}"
        if not pairs:
            return ""
        if not all(self._is_within(*pair) for pair in pairs):
            return "the replaced code differs in this tree"
        keys = ((item, "") for item in (*chunk.added, *chunk.removed))
        refused = next((key for key in keys if key in self.log.refused), None)
        if refused is not None:
            return self.log.refused[refused]
        items = tuple(there.values())
        region = Region.of(items[0])
        if region.inside.children[region.start : region.start + len(items)] != items:
            return "this tree has other code between the replaced statements"
        ours_text = items[0].own + "".join(item.text for item in items[1:])
        return _COMMENTED if loses_comments(ours_text, *chunk.texts) else ""

    def _reject_chunk(self, alignment: Alignment, chunk: Chunk, refusal: Refusal | str) -> None:
        """Record a conflict of all changes between two items together."""
        self.log.reject(alignment.base.site, refusal, chunk.texts, alignment.region(chunk))

    def _add_docstring(self, alignment: Alignment, chunk: Chunk) -> None:
        """Insert a new docstring as the first statement; a conflict if the tree has another docstring."""
        first = alignment.theirs.docstring
        if first is None or chunk.added[:1] != [first]:
            return
        docstring = alignment.ours.docstring
        if docstring is not None and docstring not in alignment.to_ours.values():
            if docstring.documentation == first.documentation:
                self.log.record(first, Outcome.ALREADY)
            else:
                base_text = dedented(item for item in chunk.removed if item.documentation)
                reason = "the change adds a docstring, and this tree has another"
                self.log.reject(
                    alignment.base.site, reason, (base_text, first.dedented), Region.of(docstring)
                )
            chunk.removed = [item for item in chunk.removed if not item.documentation]
        elif not alignment.ours.children or (
            docstring is not None and chunk.removed and not alignment.base.is_scope
        ):
            return
        elif not self.log.is_refused((first, ""), theirs=first, region=Region(alignment.ours, 0, 0)):
            self._put(alignment.ours, 0, [first], alignment.ours.inner_indent)
            self.log.record(first, Outcome.LANDED, ours=alignment.ours.children[0], key=(first, ""))
        chunk.added = chunk.added[1:]

    def add_import(self, root: Item, line: str) -> None:
        """Add an import to a file, after its other imports."""
        self.output.insert(root, import_place(root), f"{line}\n")

    def _insert(self, alignment: Alignment, chunk: Chunk) -> None:
        """Insert new items beside the neighbours that they have in the change."""
        unmatched = alignment.only_in_ours()
        codes = {item.code for item in unmatched}
        names = {item.name: item for item in unmatched if item.is_unique}
        added: list[Item] = []
        for item in chunk.added:
            if item.code in codes or (item.is_import and not alignment.unimported(item)):
                self.log.record(item, Outcome.ALREADY)
            elif item.is_unique and item.name in names:
                reason = f"the change adds {item.name}, and this tree has another"
                region = Region.of(names[item.name])
                self.log.reject(item.site, reason, ("", item.dedented), region)
            elif item.is_import and (other := self._imported_otherwise(alignment, item)):
                reason = f"this tree has `{other.own_dedented.strip()}`"
                self.log.reject(item.site, reason, ("", item.dedented), Region.of(other))
            elif not self.log.is_refused((item, ""), theirs=item, region=alignment.region_at(item)):
                added.append(item)
        if not added:
            return
        point = alignment.insertion_point(added)
        if point.reason and not point.is_usable:
            self._reject_chunk(alignment, replace(chunk, removed=[], added=added), point.reason)
            return
        container = point.container
        is_bare = not container.children and container.parent is None
        if is_bare:
            self.output.insert_below(container, added[0])
        gone = alignment.gone_comments(chunk)
        self._put(container, point.index, added[is_bare:], container.inner_indent, gone)
        is_reworded = any(gone.get(line) for item in added for line in stripped_lines(item.lead))
        reason = point.reason or (_REWORDED if is_reworded else "")
        place = container.children[point.index - 1] if point.index else container
        site, outcome, texts = alignment.base.site, Outcome.made(reason), (point.base_text, point.ours_text)
        self.log.edits += [
            EditOutcome(item.site or site, outcome, reason, *texts, place=place, key=(item, ""))
            for item in added
        ]

    def _imported_otherwise(self, alignment: Alignment, added: Item) -> Item | None:
        """Return an import of this tree alone that binds a name of another import to something else."""
        if self.policy is Policy.REFUSE:
            return None
        own = (item for item in alignment.only_in_ours() if item.is_import)
        sources = {bound(name): item for item in own for name in imported(item)}
        names = (bound(name) for name in alignment.unimported(added) if " import " in name)
        return next((sources[name] for name in names if name in sources), None)

    def _put(
        self, container: Item, index: int, added: Iterable[Item], indent: str, gone: Container[str] = ()
    ) -> None:
        """Insert items, without the comments above them that are ``gone`` from this tree."""
        for item in added:
            lead = "".join(line for line in lines_with_ends(item.lead) if line.strip() not in gone)
            text = self._renamed(tokens.shifted(lead + item.own, item.indent, indent), container)
            self.output.insert(container, index, text)
