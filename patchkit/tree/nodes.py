"""Facts of syntax nodes: what is below one, which blocks a statement has, and what names it binds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from patchkit import memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
"""Statements that leave their block."""
TRIES: tuple[type[ast.Try], ...] = (
    ast.Try,
    getattr(ast, "TryStar", ast.Try),
)  # Python 3.10 has no `except*`.

# Fields that never hold a node, or hold only the Load, Store or Del context.
_PLAIN = frozenset(
    {"arg", "asname", "attr", "conversion", "ctx", "id", "kind", "level", "module", "type_comment"}
)


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each node class that can hold other nodes."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        names = () if kind is ast.Constant else tuple(name for name in kind._fields if name not in _PLAIN)
        return self.setdefault(kind, names)


_FIELDS = _Fields()


def walk(node: ast.AST) -> list[ast.AST]:
    """Return ``node`` and all nodes below it except contexts, in the order of `ast.walk`."""
    nodes = [node]
    for child in nodes:
        for name in _FIELDS[type(child)]:
            value = getattr(child, name, None)
            if type(value) is list:
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of a statement, of either kind of syntax tree, that hold its blocks, in their order."""


def statements(node: ast.mod | ast.stmt) -> list[ast.stmt]:
    """Return every statement below ``node``, in the order of `ast.walk`, without visiting expressions."""
    nodes: list[ast.AST] = [node]
    for child in nodes:
        for name in child._fields:
            if name in BLOCKS:
                nodes += getattr(child, name)
    return [statement for statement in nodes[1:] if isinstance(statement, ast.stmt)]


def own_statements(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield the statements of a scope in order, those in branches included, but not those in its definitions."""
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (*DEFINITIONS, ast.expr)):
            for name in BLOCKS:
                yield from own_statements(getattr(node, name, ()))


@memory.cached(4096)
def unparsed(node: ast.AST) -> str:
    """Return the source of a node, as `ast.unparse` does, which takes as long as evaluating it many times."""
    return ast.unparse(node)


def bound_as(alias: ast.alias) -> str:
    """Return the name that a part of an import binds, which is `*` if it binds any."""
    return alias.asname or alias.name.partition(".")[0]


def bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement itself binds, not the statements in its blocks."""
    if isinstance(node, DEFINITIONS):
        yield node.name
        return
    if isinstance(node, ast.alias):
        yield bound_as(node)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name is not None:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest is not None:
        yield node.rest
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.Lambda)):
            continue
        # A comprehension has variables of its own, which `:=` in it does not bind.
        if not (isinstance(node, ast.comprehension) and child is node.target):
            yield from bound_names(child)


def assigned_names(*nodes: ast.AST) -> set[str]:
    """Return the names to which code assigns, also in definitions inside it."""
    return {
        inner.id
        for node in nodes
        for inner in walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }


def is_named(node: ast.expr, name: str) -> bool:
    """Return whether an expression is this name."""
    return isinstance(node, ast.Name) and node.id == name
