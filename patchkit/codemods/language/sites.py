"""Messages about sites that do not match, and replacement of an expression at a site."""

from __future__ import annotations

import difflib
import re
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from patchkit.codemods import examination
from patchkit.codemods.examination import Reason
from patchkit.codemods.language import syntax
from patchkit.codemods.language.comment import annotate, lost, put_above
from patchkit.codemods.language.nearness import first_line_of, nearest_run, partly_bound
from patchkit.codemods.language.precedence import in_place_of
from patchkit.lines import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.codemods.language.nearness import NearMatch
    from patchkit.codemods.language.pattern import Match, Pattern
    from patchkit.codemods.language.placeholders import Bindings
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path


def statement_at(module: cst.Module, path: Path) -> Path:
    """Return the path of the innermost statement that contains ``path``; that of the module if none does."""
    for cut in range(len(path), 0, -1):
        if isinstance(syntax.node_at(module, path[:cut]), cst.BaseStatement):
            return path[:cut]
    return ()


def line_of(scope: Scope, path: Path) -> str:
    """Return the first line of the statement that contains ``path``, for a message."""
    return first_line_of(syntax.node_at(scope.module, statement_at(scope.module, path)))


def several(scope: Scope, paths: Iterable[Path]) -> Reason:
    """Return the reason for several matches, with the line of each."""
    places = dict.fromkeys(statement_at(scope.module, path) for path in paths)
    lines = (line_of(scope, place) for place in sorted(places, key=syntax.order))
    return Reason("several places match, expected one: ", tuple(lines))


def nearest_of(scope: Scope, finds: Iterable[Pattern]) -> tuple[Pattern, NearMatch] | None:
    """Return the pattern of statements that matches best, and where; None if none matches in part."""
    near = ((find, nearest_run(scope, find)) for find in finds if not find.is_expression)
    matches = [(find, run) for find, run in near if run is not None]
    return max(matches, key=lambda match: match[1].share, default=None)


def unmatched(scope: Scope, finds: Sequence[Pattern], where: str = "") -> Reason:
    """Return the reason for patterns that do not match: the nearest one's missing line and the closest line to it.

    ``where`` tells where they are expected.
    """
    best = nearest_of(scope, finds)
    if best is None:
        return nearest(scope, finds[0].text).after(f"expected `{plain(finds[0].text)}`{where}; ")
    find, near = best
    body = syntax.statements_of(syntax.node_at(scope.module, near.block)) or ()
    bindings = partly_bound(find, body[near.start : near.end])
    expected, missing = plain(find.text, bindings), plain(near.missing, bindings)
    closest = line_of(scope, near.closest) if near.closest is not None else ""
    if not near.missing:
        between = f"; `{closest}` is in between" if closest else ""
        return Reason(f"expected `{expected}`{where}{between}")
    lines = [line.strip() for line in split_lines(find.text) if line.strip()]
    if near.instead:
        what = f"`{missing}`, found `{near.instead}`"
    elif len(lines) == 1:
        what = f"`{expected}`"
    else:
        of = f" (line {lines.index(near.missing) + 1} of {len(lines)})" if near.missing in lines else ""
        what = f"`{missing}`{of}"
    return _nearest_is(closest).after(f"expected {what}{where}; ")


def _nearest_is(line: str) -> Reason:
    return Reason("the nearest line is ", (line,)) if line else Reason("no line is similar")


def nearest(scope: Scope, wanted: str) -> Reason:
    """Return the line of the scope most similar to ``wanted``, as the end of a reason.

    In order of preference: an assignment to the same name, a call with the same argument, the most similar line, a
    line with the same dotted name.
    """
    return _nearest_is(_nearest_line(scope, wanted))


def no_call(scope: Scope, wanted: str) -> examination.Examination:
    """Return that no call of the scope matches ``wanted``."""
    like = wanted.strip()
    return examination.absent(lambda: nearest(scope, like).after(f"expected a call like `{plain(like)}`; "))


def closest(scope: Scope, wanted: str) -> Path | None:
    """Return the path of the innermost statement with the line that ``nearest`` names; None if there is none."""
    line = _nearest_line(scope, wanted)
    return _statement_with(scope, line)


def _statement_with(scope: Scope, line: str) -> Path | None:
    """Return the path of the innermost statement with a line."""
    containing = [
        path
        for path, node in syntax.descend(scope.node, scope.path)
        if line
        and path != scope.path
        and isinstance(node, cst.BaseStatement)
        and any(line == text.strip() for text in split_lines(syntax.code_of(node)))
    ]
    return max(containing, key=len, default=None)


def _nearest_line(scope: Scope, wanted: str) -> str:
    first = next((line.strip() for line in split_lines(wanted) if line.strip() not in {"", "..."}), "")
    target = _TARGET.match(first)
    assigning = _assigning(scope, target[1]) if target else []
    if assigning:
        return assigning[0]
    lines = [line.strip() for line in split_lines(syntax.code_of(scope.node)) if line.strip()]
    wanted = first.replace("$", "")
    named = max(_NAMED.findall(first), key=len, default="")
    argument = f"({named}"
    matching = [line for line in lines if argument in line] if named and argument in first else []
    close = difflib.get_close_matches(wanted, matching, n=1, cutoff=0.0)
    close = close or difflib.get_close_matches(wanted, lines, n=1, cutoff=0.4)
    if not close and named:
        close = difflib.get_close_matches(wanted, [line for line in lines if named in line], n=1, cutoff=0.0)
    where = _statement_with(scope, close[0]) if close else None
    return line_of(scope, where) if where is not None else ""


_PLACEHOLDER = re.compile(r"\$(\$?)(\w+)")
_NAMED = re.compile(r"(?<![\w$.])[A-Za-z_]\w*(?:\.\w+)+")
_TARGET = re.compile(r"[\w$.]*\.(\w+)\s*(?::[^=]*)?[-+*/|&]?=(?!=)")


def _assigning(scope: Scope, name: str) -> list[str]:
    """Return the first line of each statement that assigns to the attribute ``name`` of something."""
    found_sites = []
    for path, node in syntax.descend(scope.node, scope.path):
        targets = [node.target] if isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign)) else []
        if any(isinstance(target, cst.Attribute) and target.attr.value == name for target in targets):
            found_sites.append(line_of(scope, path))
    return found_sites


def bindings_given(scope: Scope, given: Iterable[Pattern]) -> Bindings | examination.Examination:
    """Return the bindings of the patterns that must match around a site; all matches of a pattern must agree."""
    bindings: Bindings = {}
    for pattern in given:
        matches = pattern.find(scope.node, scope.path, bindings)
        if not matches:
            return examination.absent(partial(unmatched, scope, (pattern,), " around the site"))
        bindings = agreed(matches)
        if bindings.keys() != matches[0].bindings.keys():
            return examination.ambiguous(f"`{plain(pattern.text)}` matches with different names")
    return bindings


def agreed(matches: Sequence[Match]) -> Bindings:
    """Return the bindings in which all matches of a pattern agree."""
    first, *others = (match.bindings for match in matches)
    return {name: value for name, value in first.items() if all(syntax.same(value, o[name]) for o in others)}


def plain(text: str, bindings: Bindings | None = None) -> str:
    """Return the text of a pattern on one line, for a message: with what its names matched, else the names alone."""

    def shown(match: re.Match[str]) -> str:
        value = (bindings or {}).get(match[2])
        if isinstance(
            value, (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.BaseNumber, cst.BaseString)
        ):
            return " ".join(syntax.code_of(value).split())
        return "..." if match[1] else match[2]

    return _PLACEHOLDER.sub(shown, " ".join(text.split()))


def replace_expression(module: cst.Module, path: Path, new: cst.BaseExpression, note: str) -> cst.Module:
    """Return the module with the expression at ``path`` replaced and ``note`` above its statement."""
    old = syntax.as_expression(syntax.node_at(module, path))
    written = in_place_of(old, new, syntax.node_at(module, path[:-1]))
    changed = syntax.replaced(module, path, written)
    return noted(changed, path, lost([old], [syntax.node_at(changed, path)]), note)


def noted(module: cst.Module, path: Path, comments: Sequence[str], note: str) -> cst.Module:
    """Return the module with comments, and a note, above the statement that contains ``path``."""
    where = _noted_statement(module, path)
    statement = syntax.as_statement(syntax.node_at(module, where))
    return syntax.replaced(module, where, annotate(put_above(statement, comments), note))


def _noted_statement(module: cst.Module, path: Path) -> Path:
    """Return the statement that gets the note for ``path``; for an ``elif``, the first of its body."""
    where = statement_at(module, path)
    node = syntax.node_at(module, where)
    if not (isinstance(node, cst.If) and where[-1][0] == "orelse"):
        return where
    inside = isinstance(node.body, cst.IndentedBlock)
    return (*where, ("body", None), ("body", 0)) if inside else _noted_statement(module, where[:-1])
