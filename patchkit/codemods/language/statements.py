"""Replace statements at a site or insert others next to them; a site must match unambiguously."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.language import syntax
from patchkit.codemods.language.comment import annotate, lost, put_above
from patchkit.codemods.language.nearness import first_line_of
from patchkit.codemods.language.pattern import Match, Pattern
from patchkit.codemods.language.sites import (
    bindings_given,
    line_of,
    replace_expression,
    several,
    unmatched,
)
from patchkit.codemods.language.template import below_blank_lines, render, render_expression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path


_BLOCKS = (cst.Module, cst.IndentedBlock, cst.SimpleStatementSuite)


def _inside(site: Match, outer: Match) -> bool:
    if site.path[: len(outer.path)] != outer.path:
        return False
    if outer.start is None or outer.end is None:
        return True
    if len(site.path) > len(outer.path):
        name, index = site.path[len(outer.path)]
        return name == "body" and index is not None and outer.start <= index < outer.end
    return site.start is not None and outer.start <= site.start < outer.end


@dataclass(frozen=True)
class CompiledVariant:
    """One known form of a site, and the code that replaces it.

    With a ``target``, only the expression of that name in ``find`` is replaced. A match is no site if a statement
    that a ``$$name`` matches also matches one of ``clear_of``.
    """

    find: Pattern
    code: str
    target: str = ""
    clear_of: tuple[Pattern, ...] = ()

    def excluded_statement(self, match: Match) -> cst.CSTNode | None:
        """Return the first statement in between that matches one of ``clear_of``."""
        runs = [value for value in match.bindings.values() if isinstance(value, tuple)]
        between = [statement for run in runs for statement in run if isinstance(statement, cst.CSTNode)]
        return next((s for s in between if any(p.find(s, given=match.bindings) for p in self.clear_of)), None)

    def site(self, module: cst.Module, match: Match, place: str) -> Match | None:
        """Return the part of a match to replace or to insert next to; None if the match is not a site."""
        if self.target:
            return Match(_path_of(module, match, self.target), match.bindings)
        if match.start is not None or (place == "replace" and Pattern.compile(self.code).is_expression):
            return match
        # Statements can replace an expression only if it is a whole statement.
        alone = isinstance(syntax.node_at(module, match.path[:-1]), cst.Expr)
        is_site = place != "replace" or "$$found" in self.code or alone
        return _whole_statement(module, match) if is_site else None


class _Site(NamedTuple):
    variant: CompiledVariant
    match: Match
    place: Match


@dataclass(frozen=True)
class Statements:
    """Replace what ``find`` matches by ``code``, in which ``$$found`` stands for the matched statements.

    ``place`` is ``replace``, ``before`` or ``after``. ``written`` are patterns of the edit's own code, ``already`` of
    other forms of it. ``context`` must match in the scope and binds names for the others, except for ``already``. Of
    several variants that match one site, the first is used. With ``every`` all matches are edited; otherwise several
    are ambiguous.
    """

    variants: tuple[CompiledVariant, ...]
    place: str = "replace"
    already: tuple[Pattern, ...] = ()
    context: tuple[Pattern, ...] = ()
    every: bool = False
    written: tuple[Pattern, ...] = ()

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Find the sites in ``scope``."""
        given = bindings_given(scope, self.context)
        names = {} if isinstance(given, examination.Examination) else given
        wanted = [*((sign, names) for sign in self.written), *((sign, None) for sign in self.already)]
        signs = [
            (sign, match) for sign, bound in wanted for match in sign.find(scope.node, scope.path, bound)
        ]
        marks = [match for _, match in signs]
        form = "\n".join(sign.text for sign, _ in signs)
        if marks and self.place != "replace":
            return examination.present(form=form)
        if isinstance(given, examination.Examination):
            return examination.present(form=form) if marks else given
        sites: list[_Site] = []
        for variant in self.variants:
            for match in variant.find.find(scope.node, scope.path, given):
                passed = variant.excluded_statement(match)
                if passed is not None:
                    return examination.ambiguous(
                        f"`{first_line_of(passed)}` is in between and uses what the edit moves"
                    )
                taken = [*marks, *(site.match for site in sites)]
                place = variant.site(scope.module, match, self.place)
                if place is not None and not any(_inside(match, o) or _inside(o, match) for o in taken):
                    sites.append(_Site(variant, match, place))
        if not sites:
            if marks:
                return examination.present(form=form)
            return examination.absent(lambda: unmatched(scope, [variant.find for variant in self.variants]))
        if not self.every and (len(sites) > 1 or marks):
            return examination.ambiguous(
                several(scope, map(statement_path, [*marks, *(s.place for s in sites)]))
            )
        for site in sites:
            if site.match.start is None and site.place.start is not None and _shares_line(scope, site.match):
                line = line_of(scope, site.match.path)
                return examination.ambiguous(f"`{line}` has several statements on one line, expected one")
        edits = [(site.place, partial(_edit_one, site.variant, site.place, self.place)) for site in sites]
        return examination.ready(lambda: edited(scope.module, edits, note))


def edited(
    module: cst.Module, edits: Iterable[tuple[Match, Callable[[cst.Module, str], cst.Module]]], note: str
) -> cst.Module:
    """Return the module with an edit made at each place; the first one gets the note."""
    ordered = sorted(edits, key=lambda edit: syntax.order(statement_path(edit[0])))
    # The last one is made first, so that earlier paths stay valid.
    for index, (_, made_in) in reversed(list(enumerate(ordered))):
        module = made_in(module, note if index == 0 else "")
    return module


def statement_path(match: Match) -> Path:
    """Return the path of the first statement that a match covers, or of its expression."""
    return match.path if match.start is None else (*match.path, ("body", match.start))


def _edit_one(
    variant: CompiledVariant, match: Match, place: str, module: cst.Module, note: str
) -> cst.Module:
    if match.start is None:
        return replace_expression(module, match.path, render_expression(variant.code, match.bindings), note)
    body = tuple(syntax.statements_of(syntax.node_at(module, match.path)) or ())
    matched = body[match.start : match.end]
    lead = _lead(matched[0])
    bare = (_with_lead(matched[0], ()), *matched[1:])
    fresh = render(variant.code, {**match.bindings, "found": bare})
    new: tuple[cst.BaseStatement, ...]
    if place == "before":
        first = annotate(_with_lead(fresh[0], (*_blank(lead), *_lead(fresh[0]))), note)
        new = (first, *fresh[1:], _with_lead(matched[0], from_first_comment(lead)), *matched[1:])
    elif place == "after":
        first, *rest = below_blank_lines(variant.code, fresh)
        new = (*matched, annotate(first, note), *rest)
    else:
        first = put_above(_with_lead(fresh[0], lead), lost(bare, fresh))
        first = _with_lead(first, (*_lead(first), *_lead(fresh[0])))
        new = (annotate(first, note), *fresh[1:])
    return syntax.with_body(module, match.path, (*body[: match.start], *new, *body[match.end :]))


def statement_of(module: cst.Module, match: Match) -> Match | None:
    """Return the match as whole statements; None for an expression that is not a statement of its own."""
    if match.start is not None:
        return match
    alone = isinstance(syntax.node_at(module, match.path[:-1]), cst.Expr)
    line = syntax.node_at(module, match.path[:-2])
    shared = isinstance(line, cst.SimpleStatementLine) and len(line.body) > 1
    return _whole_statement(module, match) if alone and not shared else None


def _shares_line(scope: Scope, match: Match) -> bool:
    """Return whether an expression is on a line with other statements."""
    above = [syntax.node_at(scope.module, match.path[:cut]) for cut in range(len(match.path))]
    return any(isinstance(node, cst.SimpleStatementLine) and len(node.body) > 1 for node in above)


def _path_of(module: cst.Module, match: Match, name: str) -> Path:
    """Return the path of the expression that a pattern bound to ``name``."""
    wanted = match.bindings[name]
    below = syntax.descend(syntax.node_at(module, match.path), match.path)
    return next(path for path, node in below if node is wanted)


def _with_lead(statement: cst.BaseStatement, lines: tuple[cst.EmptyLine, ...]) -> cst.BaseStatement:
    return statement.with_changes(leading_lines=lines)


def _whole_statement(module: cst.Module, match: Match) -> Match:
    """Return the match of the statement that contains a matched expression."""
    for cut in range(len(match.path), 0, -1):
        name, index = match.path[cut - 1]
        is_in_block = isinstance(syntax.node_at(module, match.path[: cut - 1]), _BLOCKS)
        if name == "body" and index is not None and is_in_block:
            return Match(match.path[: cut - 1], match.bindings, index, index + 1)
    return match


def _lead(statement: cst.BaseStatement) -> tuple[cst.EmptyLine, ...]:
    return tuple(statement.leading_lines)  # type: ignore[attr-defined]


def _blank(lines: Iterable[cst.EmptyLine]) -> tuple[cst.EmptyLine, ...]:
    return tuple(line for line in lines if line.comment is None)[:1]


def from_first_comment(lines: Iterable[cst.EmptyLine]) -> tuple[cst.EmptyLine, ...]:
    """Return the lines above a statement without leading blank ones."""
    remaining = list(lines)
    while remaining and remaining[0].comment is None:
        remaining.pop(0)
    return tuple(remaining)
