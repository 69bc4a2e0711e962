"""Patterns match code by structure and bind names; templates write code with these names.

Both are Python with three additions. ``$name`` matches any expression (the same name twice: the same expression
twice; ``$_`` is not bound). ``...`` as an argument matches any further arguments, as a statement any statements in
between, and as the only statement of a block any block. ``$$name`` on its own line matches any run of statements,
which a template writes back with their comments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import libcst as cst

from patchkit.codemods.language import syntax
from patchkit.codemods.language.placeholders import (
    STATEMENTS,
    VARIABLE,
    Bindings,
    PatternError,
    Value,
    lone_expression,
    parse,
    run_name,
    variable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from patchkit.codemods.language.syntax import Path


def _bind(name: str, value: Value, bindings: Bindings) -> Bindings | None:
    if name == "_":
        return bindings
    if name in bindings:
        return bindings if syntax.same(bindings[name], value) else None
    return {**bindings, name: value}


def _is_open(node: object) -> bool:
    """Return whether a node is the argument ``...``."""
    return isinstance(node, cst.Arg) and isinstance(node.value, cst.Ellipsis) and node.keyword is None


def _match_arguments(
    pattern: Sequence[cst.Arg], args: Sequence[cst.Arg], bindings: Bindings
) -> Bindings | None:
    wanted = [arg for arg in pattern if not _is_open(arg)]
    is_open = len(wanted) < len(pattern)
    keywords = {arg.keyword.value: arg for arg in args if arg.keyword is not None}
    positional = [arg for arg in args if arg.keyword is None]
    if not is_open and len(wanted) != len(args):
        return None
    pairs = []
    for arg in wanted:
        if arg.keyword is not None:
            given = keywords.get(arg.keyword.value)
        else:
            given = positional.pop(0) if positional and positional[0].star == arg.star else None
        if given is None:
            return None
        pairs.append((arg.value, given.value))
    return _match_all(pairs, bindings)


def match_node(pattern: object, node: object, bindings: Bindings) -> Bindings | None:
    """Return the bindings extended by the match of one node or field value, or ``None``."""
    name = variable(pattern)
    if name is not None:
        return _bind(name, node, bindings) if syntax.is_node(node) else None
    if syntax.is_node(pattern):
        return _match_fields(pattern, node, bindings)
    if isinstance(pattern, (tuple, list)):
        if not isinstance(node, (tuple, list)) or len(pattern) != len(node):
            return None
        return _match_all(zip(pattern, node, strict=True), bindings)
    return bindings if syntax.same(pattern, node) else None


def _match_all(pairs: Iterable[tuple[object, object]], bindings: Bindings) -> Bindings | None:
    """Return the bindings extended by the match of each pair, or ``None``."""
    for left, right in pairs:
        step = match_node(left, right, bindings)
        if step is None:
            return None
        bindings = step
    return bindings


def _match_fields(pattern: cst.CSTNode, node: object, bindings: Bindings) -> Bindings | None:
    kind = type(pattern)
    if kind is cst.IndentedBlock and isinstance(node, cst.BaseSuite):
        return _match_block(pattern, node, bindings)
    if kind is cst.Assign and type(node) is cst.AnnAssign:
        return _match_annotated(pattern, node, bindings)
    if kind is not type(node):
        return None
    return _MATCHERS.get(kind, _match_meaning)(pattern, node, bindings)


def _match_meaning(pattern: cst.CSTNode, node: cst.CSTNode, bindings: Bindings) -> Bindings | None:
    names = syntax.meaning_fields(type(pattern))
    return _match_all(((getattr(pattern, name), getattr(node, name)) for name in names), bindings)


def _match_annotated(pattern: Any, node: cst.AnnAssign, bindings: Bindings) -> Bindings | None:
    """Match an assignment without the annotation, which does not change its effect."""
    if len(pattern.targets) != 1 or node.value is None:
        return None
    return _match_all(((pattern.targets[0].target, node.target), (pattern.value, node.value)), bindings)


def _match_block(pattern: Any, node: cst.CSTNode, bindings: Bindings) -> Bindings | None:
    hit = _Run(pattern.body, syntax.statements_of(node) or (), to_end=True).match(0, bindings)
    return None if hit is None else hit[1]


def _match_call(pattern: Any, node: Any, bindings: Bindings) -> Bindings | None:
    step = match_node(pattern.func, node.func, bindings)
    return None if step is None else _match_arguments(pattern.args, node.args, step)


def _match_parameters(pattern: Any, node: Any, bindings: Bindings) -> Bindings | None:
    if any(variable(parameter.name) == "_" for parameter in pattern.params):
        return bindings
    return _match_meaning(pattern, node, bindings)


def _match_function(pattern: Any, node: Any, bindings: Bindings) -> Bindings | None:
    pairs = ((pattern.name, node.name), (pattern.params, node.params), (pattern.body, node.body))
    return _match_all(pairs, bindings)


_MATCHERS: Mapping[type[cst.CSTNode], Callable[[Any, Any, Bindings], Bindings | None]] = {
    cst.Call: _match_call,
    cst.Parameters: _match_parameters,
    cst.FunctionDef: _match_function,
    cst.SimpleString: lambda pattern, node, bindings: bindings if syntax.same(pattern, node) else None,
}
"""How nodes of the same class match, where not by all significant fields."""


def _shape(statement: cst.CSTNode) -> object:
    """Return what is equal for a pattern and a statement that it matches: the class of the statement on its line."""
    if type(statement) is not cst.SimpleStatementLine or len(statement.body) != 1:
        return type(statement)
    small = type(statement.body[0])
    return cst.Assign if small is cst.AnnAssign else small


def _own_names(pattern: cst.CSTNode) -> frozenset[str]:
    """Return the names in a pattern that are no placeholders."""
    return frozenset(n for n in syntax.names_in(pattern) if not n.startswith((VARIABLE, STATEMENTS)))


@lru_cache(maxsize=4096)
def _has_definition(pattern: cst.CSTNode) -> bool:
    """Return whether a pattern has a function or parameters, which may match without all of its names."""
    pending = [pattern]
    while pending:
        node = pending.pop()
        # `isinstance` is slow for node classes.
        if type(node) is cst.FunctionDef or type(node) is cst.Parameters:
            return True
        pending += [part for _, part in syntax.parts(node)]
    return False


class _StatementPattern:
    """One statement of a pattern, and the necessary conditions of its matches."""

    def __init__(self, pattern: cst.CSTNode) -> None:
        self.pattern = pattern
        self.run = run_name(pattern)
        self._shape = _shape(pattern)
        self._names = frozenset[str]() if _has_definition(pattern) else _own_names(pattern)

    def may_match(self, statement: cst.CSTNode) -> bool:
        """Return False for a statement of another class, or without a name that the pattern has."""
        return self._shape == _shape(statement) and self._names <= syntax.names_in(statement)


@lru_cache(maxsize=4096)
def _steps(pattern: tuple[cst.CSTNode, ...]) -> tuple[_StatementPattern, ...]:
    return tuple(map(_StatementPattern, pattern))


class _Run:
    """One search for a run of patterns among statements; it does not retry dead ends."""

    def __init__(self, pattern: Sequence[cst.CSTNode], nodes: Sequence[cst.CSTNode], *, to_end: bool) -> None:
        self.steps = _steps(tuple(pattern))
        self.nodes = nodes
        self.to_end = to_end
        self.latest = self._latest()
        self.dead: dict[tuple[int, int, int], Bindings] = {}

    def _latest(self) -> list[int]:
        """Return the last statement from which the patterns from each index on may match, -1 if there is none."""
        latest = [len(self.nodes)]
        for step in reversed(self.steps):
            position = latest[-1]
            if step.run is None:
                position -= 1
                while position >= 0 and not step.may_match(self.nodes[position]):
                    position -= 1
                if position < 0:
                    return [-1] * (len(self.steps) + 1)
            latest.append(position)
        return latest[::-1]

    def match(self, position: int, bindings: Bindings, index: int = 0) -> tuple[int, Bindings] | None:
        """Return end and bindings of the match from statement ``position`` with the shortest gaps, None if none is."""
        key = (index, position, id(bindings))
        hit = None if key in self.dead else self._tried(position, bindings, index)
        if hit is None:
            self.dead[key] = bindings
        return hit

    def may_start(self, position: int, index: int = 0) -> bool:
        """Return False for a statement at which the pattern with this index, and so a match, cannot begin."""
        if position > self.latest[index]:
            return False
        if index == len(self.steps) or self.steps[index].run is not None:
            return True
        return self.steps[index].may_match(self.nodes[position])

    def _tried(self, position: int, bindings: Bindings, index: int) -> tuple[int, Bindings] | None:
        if index == len(self.steps):
            return (position, bindings) if position == len(self.nodes) or not self.to_end else None
        step = self.steps[index]
        if step.run is None:
            bound = (
                match_node(step.pattern, self.nodes[position], bindings)
                if position <= self.latest[index]
                else None
            )
            return None if bound is None else self.match(position + 1, bound, index + 1)
        for end in range(position, self.latest[index + 1] + 1):
            if self.may_start(end, index + 1):
                bound = _bind(step.run, tuple(self.nodes[position:end]), bindings)
                hit = None if bound is None else self.match(end, bound, index + 1)
                if hit is not None:
                    return hit
        return None


_RUN = cst.SimpleStatementLine([cst.Expr(cst.Ellipsis())])


def _between(nodes: Iterable[cst.CSTNode], other: cst.CSTNode) -> list[cst.CSTNode]:
    return [part for node in nodes for part in (other, node)][1:]


class _Indent(cst.CSTTransformer):
    """Turns blocks on their header's line into indented blocks, which match alike."""

    def leave_SimpleStatementSuite(  # noqa: N802
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        return cst.IndentedBlock(syntax.statements_of(updated_node) or ())


class _Loosen(cst.CSTTransformer):
    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> bool:  # noqa: N802
        return False  # It has no block.

    def leave_IndentedBlock(  # noqa: N802
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        body = (_RUN, *_between(updated_node.body, _RUN), _RUN)
        return updated_node.with_changes(body=body)


def _loosened(statement: cst.CSTNode) -> cst.CSTNode:
    loose = statement.visit(_Loosen())
    assert isinstance(loose, cst.CSTNode)  # It removes no node.
    return loose


@cache
def _compiled(text: str) -> tuple[cst.CSTNode, ...]:
    module = parse(text)
    if any(type(block) is cst.SimpleStatementSuite for _, block in syntax.blocks_in(module)):
        module = cst.ensure_type(module.visit(_Indent()), cst.Module)
    body = module.body
    if not body:
        raise PatternError("the pattern is empty")
    return tuple(body)


@dataclass(frozen=True)
class Match:
    """A match of a pattern.

    For a run of statements, ``path`` is its block, and ``start`` and ``end`` are its bounds there. For an expression,
    ``path`` is the expression itself and ``start`` is ``None``.
    """

    path: Path
    bindings: Bindings
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Pattern:
    """A compiled pattern; a single expression also matches inside statements."""

    text: str
    statements: tuple[cst.CSTNode, ...] = field(repr=False, compare=False)

    @classmethod
    @cache
    def compile(cls, text: str) -> Pattern:
        """Return ``text`` compiled. Raise PatternError if it is not Python with placeholders."""
        return cls(text, _compiled(text))

    @cached_property
    def loose(self) -> Pattern:
        """The pattern with any further statements allowed between its statements and around those of its blocks."""
        statements = [_loosened(statement) for statement in self.statements]
        return Pattern(self.text, tuple(_between(statements, _RUN)))

    @property
    def is_expression(self) -> bool:
        """Whether the pattern is a single expression."""
        return (
            len(self.statements) == 1
            and lone_expression(self.statements[0]) is not None
            and run_name(self.statements[0]) is None
        )

    @property
    def expression(self) -> cst.BaseExpression:
        """The pattern's single expression. Raise an error if it is not one."""
        return syntax.as_expression(lone_expression(self.statements[0]))

    @property
    def is_call(self) -> bool:
        """Whether the pattern is a single call."""
        return len(self.statements) == 1 and isinstance(lone_expression(self.statements[0]), cst.Call)

    @property
    def passes_over(self) -> bool:
        """Whether it matches statements or arguments without a name, which no template can write back."""
        nodes = [node for statement in self.statements for _, node in syntax.descend(statement)]
        return any(run_name(node) == "_" or _is_open(node) for node in nodes)

    def find(self, root: cst.CSTNode, path: Path = (), given: Bindings | None = None) -> list[Match]:
        """Return every match at or below ``root``, in source order.

        ``path`` is the path of ``root``; names in ``given`` match only what they are bound to there.
        """
        if not self._names <= syntax.names_in(root):
            return []
        search = self._find_expressions if self.is_expression else self._find_runs
        return list(search(root, path, given or {}))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset[str]().union(*map(_own_names, self.statements))

    @property
    def needed(self) -> frozenset[str] | None:
        """The names in every function that a match is in or begins with, None if these may have none in common."""
        first = self.statements[0]
        if len(self.statements) == 1 and isinstance(first, cst.FunctionDef) and variable(first.name) is None:
            return frozenset({first.name.value})
        return None if self._has_definition else self._names

    @cached_property
    def _has_definition(self) -> bool:
        return any(map(_has_definition, self.statements))

    def _may_be_in(self, node: cst.CSTNode) -> bool:
        """Return whether ``node`` has the pattern's names; a pattern with definitions can match without all of them."""
        return self._has_definition or self._names <= syntax.names_in(node)

    def _find_expressions(self, root: cst.CSTNode, path: Path, given: Bindings) -> Iterator[Match]:
        wanted = self.expression
        for where, node in syntax.descend(root, path, self._may_be_in):
            if type(node) is type(wanted):
                bindings = match_node(wanted, node, given)
                if bindings is not None:
                    yield Match(where, bindings)

    def _find_runs(self, root: cst.CSTNode, path: Path, given: Bindings) -> Iterator[Match]:
        for where, block in syntax.blocks_in(root, path, self._may_be_in):
            body = syntax.statements_of(block) or ()
            run = _Run(self.statements, body, to_end=False)
            index = 0
            while index < min(len(body), run.latest[0] + 1):
                hit = run.match(index, given) if run.may_start(index) else None
                if hit is None:
                    index += 1
                else:
                    yield Match(where, hit[1], index, hit[0])
                    index = max(hit[0], index + 1)
