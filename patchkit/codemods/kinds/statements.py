"""Statements at a site are replaced or get others around them; a site is one match, never a guess."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.language import syntax
from patchkit.codemods.language.comment import annotate, lost, put_above
from patchkit.codemods.language.pattern import Bindings, Match, Pattern, render, render_expression
from patchkit.codemods.language.precedence import in_place_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path


def _inside(site: Match, outer: Match) -> bool:
    if site.path[: len(outer.path)] != outer.path:
        return False
    if outer.start is None or outer.end is None:
        return True
    if len(site.path) > len(outer.path):
        name, index = site.path[len(outer.path)]
        return name == "body" and index is not None and outer.start <= index < outer.end
    return site.start is not None and outer.start <= site.start < outer.end


def _statement_at(module: cst.Module, path: Path) -> Path:
    """Return the address of the innermost statement that holds ``path``; of the module where none does."""
    for cut in range(len(path), 0, -1):
        if isinstance(syntax.node_at(module, path[:cut]), cst.BaseStatement):
            return path[:cut]
    return ()


def _line_of(scope: Scope, path: Path) -> str:
    """Return the first line of the statement that holds ``path``, for a message."""
    statement = syntax.node_at(scope.module, _statement_at(scope.module, path))
    return syntax.code_of(statement.with_changes(leading_lines=())).strip().splitlines()[0]


def several(scope: Scope, paths: Iterable[Path]) -> str:
    """Return the message that more than one place matches, with the line of each."""
    places = dict.fromkeys(_statement_at(scope.module, path) for path in paths)
    lines = ", ".join(f"`{_line_of(scope, place)}`" for place in sorted(places, key=_order))
    return f"several places match, expected one: {lines}"


def nearest(scope: Scope, wanted: str) -> str:
    """Return the line of the scope that reads most like ``wanted``, for a message on what was found."""
    lines = [line.strip() for line in syntax.code_of(scope.node).splitlines() if line.strip()]
    first = next((line.strip() for line in wanted.splitlines() if line.strip() not in {"", "..."}), "")
    close = difflib.get_close_matches(first.replace("$", ""), lines, n=1, cutoff=0.4)
    return f"the nearest line is `{close[0]}`" if close else "no line is like it"


def bindings_given(scope: Scope, given: Iterable[Pattern]) -> Bindings | examination.Examination:
    """Return what the patterns that must hold around a site bind; all matches of a pattern have to agree."""
    bindings: Bindings = {}
    for pattern in given:
        found = pattern.find(scope.node, scope.path, bindings)
        if not found:
            return examination.absent(partial(_unmet, scope, pattern))
        if any(not _agree(found[0].bindings, match.bindings) for match in found[1:]):
            return examination.ambiguous(f"`{_brief(pattern)}` matches with different names")
        bindings = found[0].bindings
    return bindings


def _unmet(scope: Scope, pattern: Pattern) -> str:
    return f"expected `{_brief(pattern)}` around the site; {nearest(scope, pattern.text)}"


def _agree(left: Bindings, right: Bindings) -> bool:
    return all(syntax.same(value, right[name]) for name, value in left.items())


def _brief(pattern: Pattern) -> str:
    return " ".join(pattern.text.split())


@dataclass(frozen=True)
class Variant:
    """One known shape of a site: what it looks like and what takes its place.

    With a ``target`` only the expression of that name in ``find`` is replaced, and the rest stays as it is.
    """

    find: Pattern
    code: str
    target: str = ""

    def site(self, module: cst.Module, match: Match, place: str) -> Match | None:
        """Return what is replaced, or gets statements beside it, for a match; None if that is no site."""
        if self.target:
            return Match(_path_of(module, match, self.target), match.bindings)
        if match.start is not None or (place == "replace" and Pattern.compile(self.code).is_expression):
            return match
        # Statements take the place of an expression only where that is a statement by itself.
        alone = isinstance(syntax.node_at(module, match.path[:-1]), cst.Expr)
        is_site = place != "replace" or "$$found" in self.code or alone
        return _whole_statement(module, match) if is_site else None


class _Site(NamedTuple):
    variant: Variant
    match: Match
    place: Match


@dataclass(frozen=True)
class Statements:
    """Replace what ``find`` matches by ``code`` (``$$found`` there: the matched statements as they were).

    ``place`` is ``replace``, ``before`` or ``after``. ``known`` are patterns of an edit already made.
    ``given`` must match in the scope and bind names for the others. Of variants that match at one site the
    first counts. With ``every`` all matches are edited, otherwise two are ambiguous.
    """

    variants: tuple[Variant, ...]
    place: str = "replace"
    known: tuple[Pattern, ...] = ()
    given: tuple[Pattern, ...] = ()
    every: bool = False

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Find the sites in ``scope``."""
        marks = [match for known in self.known for match in known.find(scope.node, scope.path)]
        if marks and self.place != "replace":
            return examination.present()
        given = bindings_given(scope, self.given)
        if isinstance(given, examination.Examination):
            return examination.present() if marks else given
        sites: list[_Site] = []
        for variant in self.variants:
            for match in variant.find.find(scope.node, scope.path, given):
                taken = [*marks, *(site.match for site in sites)]
                place = variant.site(scope.module, match, self.place)
                if place is not None and not any(_inside(match, o) or _inside(o, match) for o in taken):
                    sites.append(_Site(variant, match, place))
        if not sites:
            if marks:
                return examination.present()
            wanted = self.variants[0].find
            return examination.absent(lambda: f"expected `{_brief(wanted)}`; {nearest(scope, wanted.text)}")
        if not self.every and (len(sites) > 1 or marks):
            return examination.ambiguous(
                several(scope, map(_statement_path, [*marks, *(s.place for s in sites)]))
            )
        for site in sites:
            if site.match.start is None and site.place.start is not None and _shares_line(scope, site.match):
                line = _line_of(scope, site.match.path)
                return examination.ambiguous(f"`{line}` holds several statements, expected one a line")
        return examination.ready(lambda: self._rewrite(scope, sites, note))

    def _rewrite(self, scope: Scope, sites: Iterable[_Site], note: str) -> cst.Module:
        module = scope.module
        ordered = sorted(sites, key=lambda site: _order(_statement_path(site.place)))
        # Last site first, so that the addresses of those before stay right; the first one carries the note.
        for index, site in reversed(list(enumerate(ordered))):
            module = _edit_one(module, site.variant, site.place, self.place, note if index == 0 else "")
        return module


def _statement_path(match: Match) -> Path:
    return match.path if match.start is None else (*match.path, ("body", match.start))


def _order(path: Path) -> tuple[tuple[str, int], ...]:
    return tuple((name, -1 if index is None else index) for name, index in path)


def _edit_one(module: cst.Module, variant: Variant, match: Match, place: str, note: str) -> cst.Module:
    if match.start is None:
        return replace_expression(module, match.path, render_expression(variant.code, match.bindings), note)
    block = syntax.node_at(module, match.path)
    body = tuple(syntax.statements_of(block) or ())
    found = body[match.start : match.end]
    lead = _lead(found[0])
    bare = (_with_lead(found[0], ()), *found[1:])
    fresh = render(variant.code, {**match.bindings, "found": bare})
    new: tuple[cst.BaseStatement, ...]
    if place == "before":
        first = annotate(_with_lead(fresh[0], (*_blank(lead), *_lead(fresh[0]))), note)
        new = (first, *fresh[1:], _with_lead(found[0], _from_first_comment(lead)), *found[1:])
    elif place == "after":
        new = (*found, annotate(fresh[0], note), *fresh[1:])
    else:
        first = put_above(_with_lead(fresh[0], lead), lost(bare, fresh))
        first = _with_lead(first, (*_lead(first), *_lead(fresh[0])))
        new = (annotate(first, note), *fresh[1:])
    new_block = block.with_changes(body=(*body[: match.start], *new, *body[match.end :]))
    return cast("cst.Module", syntax.replace_at(module, match.path, new_block))


def _shares_line(scope: Scope, match: Match) -> bool:
    """Tell whether an expression stands on a line with other statements or with the header of its block."""
    above = [syntax.node_at(scope.module, match.path[:cut]) for cut in range(len(match.path))]
    return any(
        isinstance(node, cst.SimpleStatementSuite)
        or (isinstance(node, cst.SimpleStatementLine) and len(node.body) > 1)
        for node in above
    )


def _path_of(module: cst.Module, match: Match, name: str) -> Path:
    """Return where the expression stands that a pattern bound to ``name``."""
    wanted = match.bindings[name]
    below = syntax.descend(syntax.node_at(module, match.path), match.path)
    return next(path for path, node in below if node is wanted)


def _with_lead(statement: cst.BaseStatement, lines: tuple[cst.EmptyLine, ...]) -> cst.BaseStatement:
    return statement.with_changes(leading_lines=lines)


def _whole_statement(module: cst.Module, match: Match) -> Match:
    """Return the match of the statement that holds a matched expression."""
    for cut in range(len(match.path), 0, -1):
        name, index = match.path[cut - 1]
        if (
            name == "body"
            and index is not None
            and isinstance(syntax.node_at(module, match.path[:cut]), cst.BaseStatement)
        ):
            return Match(match.path[: cut - 1], match.bindings, index, index + 1)
    return match


def _lead(statement: cst.BaseStatement) -> tuple[cst.EmptyLine, ...]:
    return tuple(statement.leading_lines)  # type: ignore[attr-defined]


def _blank(lines: Iterable[cst.EmptyLine]) -> tuple[cst.EmptyLine, ...]:
    return tuple(line for line in lines if line.comment is None)[:1]


def _from_first_comment(lines: Iterable[cst.EmptyLine]) -> tuple[cst.EmptyLine, ...]:
    kept = list(lines)
    while kept and kept[0].comment is None:
        kept.pop(0)
    return tuple(kept)


def replace_expression(module: cst.Module, path: Path, new: cst.BaseExpression, note: str) -> cst.Module:
    """Return the module with the expression at ``path`` replaced, and noted above its statement."""
    old = cast("cst.BaseExpression", syntax.node_at(module, path))
    written = in_place_of(old, new, syntax.node_at(module, path[:-1]))
    changed = cast("cst.Module", syntax.replace_at(module, path, written))
    gone = lost([old], [syntax.node_at(changed, path)])
    where = _noted_statement(changed, path)
    statement = cast("cst.BaseStatement", syntax.node_at(changed, where))
    noted = annotate(put_above(statement, gone), note)
    return cast("cst.Module", syntax.replace_at(changed, where, noted))


def _noted_statement(module: cst.Module, path: Path) -> Path:
    """Return the statement above which a note on ``path`` goes: for an ``elif`` the first of its body."""
    where = _statement_at(module, path)
    node = syntax.node_at(module, where)
    if not (isinstance(node, cst.If) and where[-1][0] == "orelse"):
        return where
    inside = isinstance(node.body, cst.IndentedBlock)
    return (*where, ("body", None), ("body", 0)) if inside else _noted_statement(module, where[:-1])


@dataclass(frozen=True)
class Opening:
    """Put ``code`` at the start of a function's body, after its docstring.

    ``known`` are patterns of an edit already made; ``given`` must match in the function and bind names.
    """

    code: str
    known: tuple[Pattern, ...]
    given: tuple[Pattern, ...] = ()

    def examine(self, scope: Scope, note: str) -> examination.Examination:
        """Look for the statements; the function itself is the site."""
        if any(known.find(scope.node, scope.path) for known in self.known):
            return examination.present()
        node, body = scope.node, scope.body
        if not isinstance(node, cst.FunctionDef):
            return examination.absent(f"{scope.name or 'the module'} is not a function")
        given = bindings_given(scope, self.given)
        if isinstance(given, examination.Examination):
            return given

        def rewrite() -> cst.Module:
            at = 1 if node.get_docstring() is not None else 0
            fresh = render(self.code, given)
            return scope.with_body((*body[:at], annotate(fresh[0], note), *fresh[1:], *body[at:]))

        return examination.ready(rewrite)
