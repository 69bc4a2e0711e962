"""``exchange``: replace, add or remove statements at a place that is identified by its neighbours."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import beside, syntax
from patchkit.codemods.language.comment import annotate, comments_in, put_above
from patchkit.codemods.language.nearness import first_line_of
from patchkit.codemods.language.placeholders import as_written
from patchkit.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.codemods.examination import Codemod, Examination
    from patchkit.codemods.language.beside import Block, Neighbours
    from patchkit.codemods.language.scope import Scope

_SHORT = 2
"""The fewest names with which statements are found without a neighbour."""


class _Place(NamedTuple):
    """Statements ``start`` to ``end`` of a block, and the number of their neighbours found."""

    score: int
    block: Block
    start: int
    end: int


class Exchange(Kind, frozen=True, kw_only=True, tag="exchange", forbid_unknown_fields=True):
    """Put ``code`` in place of the statements ``find``, between those that ``behind`` and ``before`` name.

    Without ``find`` the statements are added, without ``code`` they are removed. All keys are plain Python, without
    placeholders. Layout is not compared, and neither are the blocks of ``behind``, ``before`` and ``within``, the
    statement around the place. If several places match, the one with the most neighbours is used. ``code`` keeps its
    layout, its comments, and the blank lines that it begins with; ``apart`` is the number of blank lines below it.
    """

    find: str = ""
    code: str = ""
    behind: str = ""
    before: str = ""
    within: str = ""
    apart: int = -1

    def codemod(self) -> Codemod:
        """Return the edit. Raise ValueError that names the malformed key."""
        if not self.find.strip() and not self.code.strip():
            raise ValueError("key `code`: empty, as `find` is, so nothing changes")
        if not self.find.strip() and not (self.behind.strip() or self.before.strip()):
            raise ValueError("key `behind`: without `find`, it or `before` must identify the place")
        beside.statements("find", self.find)
        beside.statements("code", self.code)
        self._neighbours()
        return self

    def _neighbours(self) -> Neighbours:
        return beside.Neighbours.read(self.behind, self.before, self.within)

    @property
    def verbatim(self) -> frozenset[str]:
        """The lines of the code, which keep their layout."""
        return frozenset(line.strip() for line in split_lines(self.code))

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the statements to remove, for those to add, and for their neighbours."""
        removed, added = beside.statements("find", self.find), beside.statements("code", self.code)
        near = self._neighbours()
        blocks = [*beside.blocks(scope)]
        old = _places(blocks, near, removed) if removed else _gaps(blocks, near)
        new = _places(blocks, near, added) if added else _bare(blocks, near)
        before, after = (max((place.score for place in places), default=-1) for places in (old, new))
        if after >= 0 and (after > before or (after == before and not (removed and added))):
            return examination.present()
        first = [place for place in old if place.score == before]
        if not first:
            wanted = removed[0] if removed else (near.above or near.below)
            quoted = first_line_of(wanted) if wanted is not None else ""
            return examination.absent(f"expected `{quoted}`, which is not there")
        if len(first) > 1 or after == before:
            lines = ", ".join(f"`{_line(place)}`" for place in first)
            return examination.ambiguous(f"several places match, expected one: {lines}")
        return examination.ready(lambda: self._rewritten(scope, first[0], removed, note))

    def _rewritten(
        self, scope: Scope, place: _Place, removed: Sequence[cst.BaseStatement], note: str
    ) -> cst.Module:
        block = syntax.node_at(scope.module, place.block.path)
        body = place.block.body
        above, found, rest = body[: place.start], body[place.start : place.end], body[place.end :]
        known = Counter(comments_in((*as_written(self.find).header, *removed, *as_written(self.find).footer)))
        known += Counter(comments_in(as_written(self.code).body))
        lost = [each for each in comments_in(found) if not known[each] or known.subtract([each])]
        footer = list(getattr(block, "footer", ()))
        fresh = _written(self.code) if self.code.strip() else ()
        if fresh:
            fresh = (annotate(put_above(fresh[0], lost), note), *fresh[1:])
        elif rest:
            rest = (annotate(put_above(rest[0], lost), note), *rest[1:])
        elif not above and not isinstance(block, cst.Module):
            empty = cst.SimpleStatementLine([cst.Pass()])
            fresh = (annotate(put_above(empty, lost), note),)
        else:
            lines = [*lost, *([f"# {note}"] if note else [])]
            footer = [*(cst.EmptyLine(comment=cst.Comment(line)) for line in lines), *footer]
        if rest and self.apart >= 0:
            rest = (_with_blank_lines(rest[0], self.apart), *rest[1:])
        if isinstance(block, cst.SimpleStatementSuite):
            block = cst.IndentedBlock(())
        changed = block.with_changes(body=(*above, *fresh, *rest), footer=footer)
        return syntax.replaced(scope.module, place.block.path, changed)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "If several places match, the one with the most neighbours is used.",
            'find = "log(book)"\ncode = "count(book)"\nbehind = "desk.lend(book)"',
            before="""
            log(book)
            desk.lend(book)
            log(book)
            """,
            after="""
            log(book)
            desk.lend(book)
            # toy: so that it shows
            count(book)
            """,
        ),
        Example(
            "Without `find` the statements are added, with their layout.",
            "code = \"\\n# one by one\\nstamp(book,\\n      14)\"\nbehind = 'if book: ...'",
            before="""
            def lend(book):
                if book:
                    log(book)
                return book
            """,
            after="""
            def lend(book):
                if book:
                    log(book)

                # one by one
                # toy: so that it shows
                stamp(book,
                      14)
                return book
            """,
            scope="lend",
        ),
        Example(
            "Without `code` they are removed; `apart` is the number of blank lines left there.",
            'find = "log(book)"\nbehind = "open()"\nbefore = "lend(book)"\napart = 1',
            before="""
            open()
            log(book)
            lend(book)
            """,
            after="""
            open()

            # toy: so that it shows
            lend(book)
            """,
        ),
        Example(
            "`within` is the statement around the place.",
            'find = "log(book)"\ncode = "count(book)"\nwithin = "for book in books:\\n    ..."',
            before="""
            if book:
                log(book)
            for book in books:
                log(book)
            """,
            after="""
            if book:
                log(book)
            for book in books:
                # toy: so that it shows
                count(book)
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "The statements are present beside their neighbour.",
            'code = "log(book)"\nbehind = "lend(book)"',
            before="""
            lend(book)
            log(  book  )
            """,
        ),
        Example(
            "The statements are absent, and their neighbours are adjacent.",
            'find = "log(book)"\nbehind = "open()"\nbefore = "lend(book)"',
            before="""
            open()
            lend(book)
            """,
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "Two places with equally many neighbours are ambiguous.",
            'find = "log(book)"\ncode = "count(book)"\nbehind = "lend(book)"',
            before="""
            lend(book)
            log(book)
            lend(book)
            log(book)
            """,
            refusal="several places match, expected one: `log(book)`, `log(book)`",
        ),
        Example(
            "A statement with few names matches only beside a neighbour.",
            'find = "return"\ncode = "return 1"\nbehind = "lend(book)"',
            before="""
            def serve(book):
                return
            """,
            scope="serve",
            refusal="expected `return`, which is not there",
        ),
        Example("`find` or `code` is required.", 'behind = "f()"', refusal="key `code`: empty"),
        Example(
            "Without `find`, a neighbour is required.", 'code = "f()"', refusal="key `behind`: without `find`"
        ),
        Example(
            "A neighbour must be one statement.",
            'code = "f()"\nbehind = "g()\\nh()"',
            refusal="key `behind`: not one statement",
        ),
    )


def _line(place: _Place) -> str:
    body = place.block.body
    return first_line_of(body[min(place.start, len(body) - 1)]) if body else ""


def _places(blocks: Sequence[Block], near: Neighbours, wanted: Sequence[cst.BaseStatement]) -> list[_Place]:
    """Return the places with these statements; statements with few names need a neighbour there."""
    names = frozenset[str]().union(*map(syntax.names_in, wanted))
    found = []
    for block in blocks:
        for at in range(len(block.body) - len(wanted) + 1):
            if beside.starts_with(wanted, block.body, at):
                end = at + len(wanted)
                place = _Place(near.score(block, at, end), block, at, end)
                if len(names) >= _SHORT or near.beside(block, at, end):
                    found.append(place)
    return found


def _gaps(blocks: Sequence[Block], near: Neighbours) -> list[_Place]:
    """Return the gaps beside a neighbour; if the two neighbours are apart, the gap below the upper one."""
    found = [
        _Place(near.score(block, at, at), block, at, at)
        for block in blocks
        for at in range(len(block.body) + 1)
        if near.beside(block, at, at)
    ]
    best = [place for place in found if place.score == max(each.score for each in found)]
    behind = [
        each for each in best if each.start and beside.is_head(near.above, each.block.body[each.start - 1])
    ]
    return behind if len(behind) == 1 else best


def _bare(blocks: Sequence[Block], near: Neighbours) -> list[_Place]:
    """Return the gaps between adjacent neighbours."""
    return [
        _Place(near.score(block, at, at), block, at, at)
        for block in blocks
        for at in range(len(block.body) + 1)
        if near.is_bare(block, at, at)
    ]


def _written(code: str) -> tuple[cst.BaseStatement, ...]:
    module = as_written(code)
    blank = len(code) - len(code.lstrip("\n"))
    body = [_without_indents(syntax.as_statement(each)) for each in module.body]
    lead = (*(cst.EmptyLine(indent=False),) * blank, *module.header, *body[0].leading_lines)  # type: ignore[attr-defined]
    return (body[0].with_changes(leading_lines=lead), *body[1:])


class _Blank(cst.CSTTransformer):
    def leave_EmptyLine(  # noqa: N802
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine:
        # A blank line at the margin stays blank where the code is indented.
        return updated_node if original_node.comment else updated_node.with_changes(indent=False)


def _without_indents(statement: cst.BaseStatement) -> cst.BaseStatement:
    return syntax.as_statement(statement.visit(_Blank()))


def _with_blank_lines(statement: cst.BaseStatement, count: int) -> cst.BaseStatement:
    lines = list(statement.leading_lines)  # type: ignore[attr-defined]
    while lines and lines[0].comment is None:
        lines.pop(0)
    blank = [cst.EmptyLine(indent=False)] * count
    return statement.with_changes(leading_lines=[*blank, *lines])
