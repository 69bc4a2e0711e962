"""Find where a pattern comes nearest to matching, and its first statement without a match."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from patchkit.codemods.language import syntax
from patchkit.codemods.language.pattern import match_node
from patchkit.codemods.language.placeholders import decoded, run_name, variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from patchkit.codemods.language.pattern import Pattern
    from patchkit.codemods.language.placeholders import Bindings
    from patchkit.codemods.language.scope import Scope
    from patchkit.codemods.language.syntax import Path

_LIKE = 0.5
"""The share of the names in a pattern's statement that similar code must have."""
_MIN_MATCHING_SHARE = 1 / 3
"""The share of a pattern that must match for a place to count as near."""


class NearMatch(NamedTuple):
    """The statements ``start`` to ``end`` of a block, between the first and the last that a pattern matches.

    ``share`` is the share of the pattern that matches, at most 1. ``missing`` is its first line without a match, and
    ``closest`` the statement most similar to it. If each line matches, ``missing`` is empty and ``closest`` is the
    first statement in between that the pattern does not skip. For a statement of several lines, ``missing`` is the
    smallest part without a match, and ``instead`` the code of ``closest`` in its place.
    """

    block: Path
    start: int
    end: int
    share: float
    missing: str
    closest: Path | None
    instead: str = ""


class _MatchedRun(NamedTuple):
    """Matched statements of a pattern, in order, each with its index in the block."""

    score: float = 0.0
    first: int = -1
    pairs: tuple[tuple[int, int], ...] = ()

    def and_then(self, wanted: int, matched: int, score: float) -> _MatchedRun:
        return _MatchedRun(
            self.score + score, self.first if self.pairs else matched, (*self.pairs, (wanted, matched))
        )


def nearest_run(scope: Scope, pattern: Pattern) -> NearMatch | None:
    """Return the place in a scope where most of a pattern's statements match in order; None if too few do."""
    wanted = _statements(pattern.statements)
    total = sum(map(_weight, wanted))
    best: tuple[_MatchedRun, Path, Sequence[cst.BaseStatement]] | None = None
    for block, suite in syntax.blocks_in(scope.node, scope.path):
        body = syntax.statements_of(suite) or ()
        chain = _aligned(wanted, body)
        if chain.pairs and (best is None or chain.score > best[0].score):
            best = chain, block, body
    if best is None or best[0].score < total * _MIN_MATCHING_SHARE:
        return None
    chain, block, body = best
    start, end = chain.pairs[0][1], chain.pairs[-1][1] + 1
    share = chain.score / total
    unmatched = _first_unmatched(wanted, chain, body, block)
    if unmatched is None:
        return NearMatch(block, start, end, share, "", _between(pattern, chain, block))
    missing, closest = unmatched
    node = syntax.node_at(scope.module, closest) if closest is not None else None
    is_long = isinstance(missing, cst.SimpleStatementLine) and "\n" in syntax.code_of(missing).strip()
    if is_long and isinstance(node, cst.SimpleStatementLine):
        part, instead = map(_brief, _parted(missing, node))
        return NearMatch(block, start, end, share, decoded(part), closest, instead)
    return NearMatch(block, start, end, share, decoded(first_line_of(missing)), closest)


def partly_bound(pattern: Pattern, statements: Sequence[cst.CSTNode]) -> Bindings:
    """Return what names of a pattern stand for in statements that match it only in part."""
    return _bound_in_row(pattern.statements, statements, {})


def _bound_in_row(wanted: Sequence[cst.CSTNode], body: Sequence[cst.CSTNode], bindings: Bindings) -> Bindings:
    statements = _statements(wanted)
    places = dict(_aligned(statements, body).pairs)
    for number, position in places.items():
        bindings = _bound_in(statements[number], body[position], bindings)
    number = 0
    for part in wanted:
        name = run_name(part)
        if name is None:
            number += 1
        elif name != "_" and number - 1 in places and number in places:
            bindings = {name: tuple(body[places[number - 1] + 1 : places[number]]), **bindings}
    return bindings


def _bound_in(wanted: cst.CSTNode, node: cst.CSTNode, bindings: Bindings) -> Bindings:
    whole = match_node(wanted, node, bindings)
    if whole is not None:
        return whole
    if isinstance(wanted, cst.BaseSuite) and isinstance(node, cst.BaseSuite):
        return _bound_in_row(syntax.statements_of(wanted) or (), syntax.statements_of(node) or (), bindings)
    left, right = ([child for _, child in syntax.children(parent)] for parent in (wanted, node))
    if type(wanted) is type(node) and len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            bindings = _bound_in(one, other, bindings)
    return bindings


def _parted(wanted: cst.CSTNode, node: cst.CSTNode) -> tuple[cst.CSTNode, cst.CSTNode]:
    """Return the smallest part of a pattern's statement that does not match, and the code in its place."""
    while type(wanted) is type(node):
        parts = [
            pair
            for left, right in zip(syntax.children(wanted), syntax.children(node), strict=False)
            if match_node(*(pair := (left[1], right[1])), {}) is None
        ]
        if len(parts) != 1 or len(list(syntax.children(wanted))) != len(list(syntax.children(node))):
            break
        wanted, node = parts[0]
    return wanted, node


def _brief(node: cst.CSTNode) -> str:
    return " ".join(syntax.code_of(node).split()).strip(", ")


def _between(pattern: Pattern, chain: _MatchedRun, block: Path) -> Path | None:
    """Return the first statement between two that are adjacent in the pattern."""
    places = iter(chain.pairs)
    before: int | None = None
    for node in pattern.statements:
        if run_name(node) is not None:
            before = None
            continue
        _, index = next(places)
        if before is not None and index > before + 1:
            return (*block, ("body", before + 1))
        before = index
    return None


def is_like(pattern: Pattern, node: cst.CSTNode) -> bool:
    """Return whether code shares enough names with a pattern to be similar to it."""
    names = frozenset[str]().union(*map(_names, pattern.statements))
    return not names or len(names & syntax.names_in(node)) >= len(names) * _MIN_MATCHING_SHARE


def first_line_of(statement: cst.CSTNode) -> str:
    """Return the first line of a statement, without the comments above it."""
    bare = statement.with_changes(leading_lines=()) if hasattr(statement, "leading_lines") else statement
    return syntax.code_of(bare).strip().splitlines()[0]


def _statements(nodes: Iterable[cst.CSTNode]) -> list[cst.CSTNode]:
    return [node for node in nodes if run_name(node) is None]


def _names(node: cst.CSTNode) -> frozenset[str]:
    return frozenset(
        name for name in syntax.names_in(node) if name != "self" and variable(cst.Name(name)) is None
    )


def _weight(wanted: cst.CSTNode) -> float:
    return len(_names(wanted)) + 0.5


def _aligned(wanted: Sequence[cst.CSTNode], body: Sequence[cst.CSTNode]) -> _MatchedRun:
    """Return the chain with the highest score; of several, the shortest."""
    above = [_MatchedRun()] * (len(body) + 1)
    for number, statement in enumerate(wanted):
        row = [_MatchedRun()]
        for index, node in enumerate(body):
            options = [row[index], above[index + 1]]
            score = _likeness(statement, node)
            if score:
                options.append(above[index].and_then(number, index, score))
            row.append(max(options, key=lambda chain: chain[:2]))
        above = row
    return above[-1]


def _likeness(wanted: cst.CSTNode, node: cst.CSTNode) -> float:
    """Return the statement's weight if a node matches it, less if it contains a match or shares names, else 0."""
    names = _names(wanted)
    common = len(names & syntax.names_in(node)) / len(names) if names else 0.0
    all_there = not names or common == 1.0
    if type(wanted) is type(node) and all_there and match_node(wanted, node, {}) is not None:
        return _weight(wanted)
    if names and all_there and isinstance(node, cst.BaseCompoundStatement) and _holds(node, wanted):
        return 0.8 * _weight(wanted)
    targets = _assigned(wanted)
    if targets:  # The target of an assignment identifies it better than its value.
        common = max(common, 0.75) if targets & _assigned(node) else common / 2
    is_alike = type(wanted) is type(node) and common >= _LIKE
    return 0.9 * common**2 * _weight(wanted) if is_alike else 0.0


def _holds(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    """Return whether a block of a statement contains a match of ``wanted``, which is not a definition."""
    return not isinstance(node, cst.FunctionDef | cst.ClassDef) and any(
        type(statement) is type(wanted) and match_node(wanted, statement, {}) is not None
        for _, block in syntax.blocks_in(node)
        for statement in syntax.statements_of(block) or ()
    )


def _assigned(statement: cst.CSTNode) -> frozenset[str]:
    """Return the names and attributes that a statement assigns to."""
    targets: list[cst.BaseExpression] = []
    for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        if isinstance(small, cst.Assign):
            targets += [target.target for target in small.targets]
        elif isinstance(small, cst.AnnAssign | cst.AugAssign):
            targets.append(small.target)
    names = (target.attr if isinstance(target, cst.Attribute) else target for target in targets)
    return frozenset(name.value for name in names if isinstance(name, cst.Name) and variable(name) is None)


def _first_unmatched(
    wanted: Sequence[cst.CSTNode], chain: _MatchedRun, body: Sequence[cst.CSTNode], block: Path
) -> tuple[cst.CSTNode, Path | None] | None:
    matched = dict(chain.pairs)
    bindings: Bindings = {}
    for number, statement in enumerate(wanted):
        if number not in matched:
            return statement, None
        node = body[matched[number]]
        step = match_node(statement, node, bindings)
        if step is None:
            return _unmatched_inside(statement, node, (*block, ("body", matched[number])))
        bindings = step
    return None


def _unmatched_inside(wanted: cst.CSTNode, node: cst.CSTNode, where: Path) -> tuple[cst.CSTNode, Path | None]:
    """Return the part of a statement that does not match: a statement in its blocks if its header matches."""
    if isinstance(wanted, cst.BaseCompoundStatement):
        for name in syntax.meaning_fields(type(wanted)):
            left, right = getattr(wanted, name), getattr(node, name)
            if not isinstance(left, cst.BaseSuite | cst.Else) or not isinstance(right, type(left)):
                if match_node(left, right, {}) is None:
                    return wanted, where
                continue
            path: Path = (*where, (name, None))
            if isinstance(left, cst.Else) and isinstance(right, cst.Else):
                left, right, path = left.body, right.body, (*path, ("body", None))
            inside, body = _statements(syntax.statements_of(left) or ()), syntax.statements_of(right) or ()
            unmatched = _first_unmatched(inside, _aligned(inside, body), body, path)
            if unmatched is not None:
                return unmatched
    return wanted, where
