"""Facts of syntax nodes: faster replacements for `ast.walk` that skip nodes without content, and names."""

from __future__ import annotations

import ast

from patchkit import collector

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
    found = [node]
    for each in found:
        for name in _FIELDS[type(each)]:
            value = getattr(each, name, None)
            if type(value) is list:
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


_BLOCKS = frozenset({"body", "cases", "finalbody", "handlers", "orelse"})


def statements(node: ast.mod | ast.stmt) -> list[ast.stmt]:
    """Return every statement below ``node``, in the order of `ast.walk`, without visiting expressions."""
    found: list[ast.AST] = [node]
    for each in found:
        for name in each._fields:
            if name in _BLOCKS:
                found += getattr(each, name)
    return [each for each in found[1:] if isinstance(each, ast.stmt)]


@collector.cached(4096)
def unparsed(node: ast.AST) -> str:
    """Return the source of a node, as `ast.unparse` does, which takes as long as evaluating it many times."""
    return ast.unparse(node)


def assigned_names(*nodes: ast.AST) -> set[str]:
    """Return the names to which code assigns, also in definitions inside it."""
    return {
        each.id
        for node in nodes
        for each in walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def is_named(node: ast.expr, name: str) -> bool:
    """Return whether an expression is this name."""
    return isinstance(node, ast.Name) and node.id == name
