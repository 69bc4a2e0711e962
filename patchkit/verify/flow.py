"""Control flow within a function: whether something has happened on all, some or no paths to a place."""

from __future__ import annotations

import ast
import enum
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from patchkit.tree.index import last_name
from patchkit.tree.nodes import statements, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from patchkit.tree.index import Function

    Sets = Callable[[ast.AST], bool]
    _Of = tuple[ast.stmt | None, str]

_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_CATCH_ALL = frozenset({"Exception", "BaseException", "suppress"})


class PathShare(enum.IntEnum):
    """On how many of the paths to a place something has happened."""

    NONE = 0
    SOME = 1
    ALL = 2


class Step(NamedTuple):
    """A block that contains a place: its statements, the index of the place in it, and what it belongs to."""

    block: Sequence[ast.stmt]
    at: int
    owner: ast.AST | None
    field: str


class Read(NamedTuple):
    """A read of a name or of an attribute chain on it; ``conditional`` if it may not be evaluated."""

    node: ast.expr
    root: str
    attributes: tuple[str, ...]
    conditional: bool


@dataclass(frozen=True)
class Place:
    """A simple statement, or the header of a compound one, with the blocks that contain it."""

    function: Function
    steps: tuple[Step, ...]
    statement: ast.stmt

    @property
    def parts(self) -> list[ast.AST]:
        """The nodes that are evaluated here."""
        return headers(self.statement)

    def reads(self) -> Iterator[Read]:
        """Yield the reads at this place, except those in functions and generators that are defined here."""
        for part in self.parts:
            yield from _reads(part, False)

    def catches(self, error: str) -> bool:
        """Return whether the function catches an error of that name at this place."""
        for step in self.steps:
            kinds: list[ast.expr | None] = []
            if isinstance(step.owner, ast.Try) and step.field == "body":
                kinds = [handler.type for handler in step.owner.handlers]
            elif isinstance(step.owner, (ast.With, ast.AsyncWith)):
                calls = (item.context_expr for item in step.owner.items)
                kinds = [call.func for call in calls if isinstance(call, ast.Call)]
                kinds = [kind for kind in kinds if kind is not None and last_name(kind) == "suppress"]
            for kind in kinds:
                names = kind.elts if isinstance(kind, ast.Tuple) else [kind]
                if any(name is None or last_name(name) in {error, *_CATCH_ALL} for name in names):
                    return True
        return False

    def path_share(self, sets: Sets, read: ast.AST | None = None) -> tuple[PathShare, ast.If | None]:
        """Return on how many paths to this place something is set, and for SOME the condition that decides.

        ``sets`` is called with simple statements, expressions, targets and handlers. Code that follows in a loop
        counts as run in the previous iteration, and the body of a ``try`` as run before what comes after it. Of the
        statement itself only calls before ``read`` count.
        """
        deciding: ast.If | None = None
        if read is not None and any(map(sets, _done_before(self.parts, read))):
            return PathShare.ALL, None
        for step in reversed(self.steps):
            done = step.block if isinstance(step.owner, _LOOPS) else step.block[: step.at]
            others = list(done)
            if isinstance(step.owner, ast.Try) and step.field != "body":
                others += step.owner.body
            for statement in reversed(others):
                if statement is self.statement:
                    continue
                found = _share_of(statement, sets)
                if found is PathShare.ALL or (found is PathShare.SOME and not isinstance(statement, ast.If)):
                    return PathShare.ALL, None
                if found is PathShare.SOME and isinstance(statement, ast.If):
                    deciding = deciding or statement
            if step.owner is not None and any(map(sets, _entered(step))):
                return PathShare.ALL, None
        return (PathShare.NONE if deciding is None else PathShare.SOME), deciding

    def depends(self, deciding: ast.If) -> bool:
        """Return whether reaching this place may depend on the test of ``deciding``."""
        tested = _tested_names(deciding)
        at = next(depth for depth, step in enumerate(self.steps) if deciding in step.block)
        for step in self.steps[at + 1 :]:
            tried = isinstance(step.owner, ast.Try) and step.field == "body"
            if not tried and not isinstance(step.owner, (ast.With, ast.AsyncWith)):
                return True
        for step in self.steps:
            if isinstance(step.owner, (ast.If, ast.While)) and tested & _names(step.owner.test):
                return True
            for statement in step.block[: step.at]:
                if any(
                    _leaves(each, tested)
                    for each in (statement, *statements(statement))
                    if each is not deciding
                ):
                    return True
        return False

    def after(self) -> Iterator[ast.stmt]:
        """Yield the statements that always follow this place in its innermost block."""
        step = self.steps[-1]
        yield from step.block[step.at + 1 :]


def places(function: Function, lines: Sequence[int] | None = None) -> Iterator[Place]:
    """Yield the places of a function; with ``lines`` (sorted), only those on these lines."""
    yield from _places(function, function.node.body, (), (None, "body"), lines)


def _places(
    function: Function,
    block: Sequence[ast.stmt],
    outer: tuple[Step, ...],
    of: _Of,
    lines: Sequence[int] | None,
) -> Iterator[Place]:
    for index, statement in enumerate(block):
        if isinstance(statement, _DEFINITIONS) or not _is_on(statement, lines):
            continue
        steps = (*outer, Step(block, index, *of))
        if any(_is_on(part, lines) for part in headers(statement)):
            yield Place(function, steps, statement)
        for name, below in blocks(statement):
            yield from _places(function, below, steps, (statement, name), lines)


def _is_on(node: ast.AST, lines: Sequence[int] | None) -> bool:
    if lines is None:
        return True
    start, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
    at = bisect_left(lines, start)
    return at < len(lines) and lines[at] <= end


def blocks(statement: ast.stmt) -> Iterator[tuple[str, Sequence[ast.stmt]]]:
    """Yield each block of a compound statement with the name of its field."""
    if isinstance(statement, _DEFINITIONS):
        return
    for name in ("body", "orelse", "finalbody"):
        if below := getattr(statement, name, None):
            yield name, below
    for handler in getattr(statement, "handlers", ()):
        yield "handlers", handler.body
    for case in getattr(statement, "cases", ()):
        yield "cases", case.body


def headers(statement: ast.stmt) -> list[ast.AST]:
    """Return the nodes that a statement evaluates before its blocks; for a simple statement, itself."""
    if isinstance(statement, (ast.If, ast.While)):
        return [statement.test]
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return [statement.iter]
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return [item.context_expr for item in statement.items]
    if isinstance(statement, ast.Match):
        return [statement.subject]
    if isinstance(statement, (ast.Try, *_DEFINITIONS)):
        return []
    return [statement]


def bound_by(statement: ast.stmt) -> list[ast.AST]:
    """Return the targets, patterns and handlers of a compound statement; for a definition, itself."""
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return [statement.target]
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return [item.optional_vars for item in statement.items if item.optional_vars is not None]
    if isinstance(statement, ast.Match):
        return [case.pattern for case in statement.cases]
    if isinstance(statement, ast.Try):
        return list(statement.handlers)
    return [statement] if isinstance(statement, _DEFINITIONS) else []


def _entered(step: Step) -> list[ast.AST]:
    """Return the nodes that are evaluated and bound on entry to a block."""
    owner = step.owner
    return [*headers(owner), *bound_by(owner)] if isinstance(owner, ast.stmt) else []


def _share_of(statement: ast.stmt, sets: Sets) -> PathShare:
    if any(map(sets, (*headers(statement), *bound_by(statement)))):
        return PathShare.ALL
    if isinstance(statement, ast.If):
        branches = _branches(statement)
        # An arm that leaves the function or the iteration does not reach this place.
        found = [
            _share_of_block(branch, sets)
            for branch in branches
            if branch and not isinstance(branch[-1], _EXITS)
        ]
        if max(found, default=PathShare.NONE) is PathShare.NONE:
            return PathShare.NONE
        # Arms that all set it are assumed to be exhaustive.
        return (
            PathShare.ALL
            if min(found) is PathShare.ALL and (branches[-1] or len(branches) > 2)
            else PathShare.SOME
        )
    return max((_share_of_block(below, sets) for _, below in blocks(statement)), default=PathShare.NONE)


def _branches(statement: ast.If) -> list[Sequence[ast.stmt]]:
    """Return the blocks of an ``if``, each ``elif`` and ``else``; the last is empty if there is no ``else``."""
    rest = statement.orelse
    if len(rest) == 1 and isinstance(rest[0], ast.If):
        return [statement.body, *_branches(rest[0])]
    return [statement.body, rest]


def _share_of_block(block: Sequence[ast.stmt], sets: Sets) -> PathShare:
    return max((_share_of(statement, sets) for statement in block), default=PathShare.NONE)


def _tested_names(deciding: ast.If) -> frozenset[str]:
    tests = [each.test for each in (deciding, *statements(deciding)) if isinstance(each, ast.If)]
    return frozenset[str]().union(*map(_names, tests))


def _names(test: ast.expr) -> frozenset[str]:
    nodes = walk(test)
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return frozenset(names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}) - {"self"}


def _leaves(statement: ast.stmt, tested: frozenset[str]) -> bool:
    """Return whether a statement may leave the function or the iteration under a test of a name in ``tested``."""
    if not isinstance(statement, (ast.Assert, ast.If)) or not tested & _names(statement.test):
        return False
    inner = statements(statement)
    return isinstance(statement, ast.Assert) or any(isinstance(each, _EXITS) for each in inner)


def _done_before(parts: Sequence[ast.AST], read: ast.AST) -> Iterator[ast.AST]:
    """Yield the calls that complete before a read, and the names that the same statement binds before it."""
    at = getattr(read, "lineno", 0), getattr(read, "col_offset", 0)
    for part in parts:
        for node in walk(part):
            if isinstance(node, ast.Call) and (node.end_lineno or 0, node.end_col_offset or 0) <= at:
                yield node
            elif isinstance(node, ast.NamedExpr):
                yield node.target


def _reads(node: ast.AST, conditional: bool) -> Iterator[Read]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        names: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            yield from _reads(inner, conditional)
        elif isinstance(node.ctx, ast.Load):
            yield Read(node, inner.id, tuple(reversed(names)), conditional)
        elif len(names) > 1:
            yield Read(node, inner.id, tuple(reversed(names))[:-1], conditional)
        elif names:
            yield Read(inner, inner.id, (), conditional)
        return
    if isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Name, ast.Attribute)):
        target = node.target
        loaded = (
            ast.Name(target.id, ast.Load())
            if isinstance(target, ast.Name)
            else ast.Attribute(target.value, target.attr, ast.Load())
        )
        yield from _reads(ast.copy_location(loaded, target), conditional)
    if isinstance(node, (ast.Lambda, ast.GeneratorExp, *_DEFINITIONS)):
        return
    if isinstance(node, _COMPREHENSIONS):
        own = {
            name.id for each in node.generators for name in walk(each.target) if isinstance(name, ast.Name)
        }
        for child in ast.iter_child_nodes(node):
            yield from (read for read in _reads(child, True) if read.root not in own)
        return
    if isinstance(node, ast.AnnAssign):
        for part in (node.target, node.value):
            if part is not None:
                yield from _reads(part, conditional)
        return
    for at, child in enumerate(ast.iter_child_nodes(node)):
        if isinstance(child, ast.expr_context):
            continue
        skipped = isinstance(node, ast.IfExp) and child is not node.test
        skipped |= isinstance(node, ast.BoolOp) and at > 1
        yield from _reads(child, conditional or skipped)


def names_bound(node: ast.AST) -> Iterator[str]:
    """Yield the local names that a simple statement, a target, a handler or an expression binds."""
    if isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ExceptHandler):
        yield node.name or ""
    elif isinstance(node, ast.pattern):
        for each in walk(node):
            yield getattr(each, "name", None) or getattr(each, "rest", None) or ""
    else:
        own = {
            id(name)
            for each in walk(node)
            if isinstance(each, ast.comprehension)
            for name in walk(each.target)
        }
        for each in walk(node):
            if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load) and id(each) not in own:
                yield each.id
