"""The nodes of a syntax tree that can mean something to a reader, found in a part of the time that `ast.walk` takes."""

from __future__ import annotations

import ast

# What never holds a node, or only says whether a name is read or written.
_PLAIN = frozenset(
    {"arg", "asname", "attr", "conversion", "ctx", "id", "kind", "level", "module", "type_comment"}
)


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each class of nodes that can hold others."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        names = () if kind is ast.Constant else tuple(name for name in kind._fields if name not in _PLAIN)
        return self.setdefault(kind, names)


_FIELDS = _Fields()


def walk(node: ast.AST) -> list[ast.AST]:
    """Return ``node`` and everything below it but contexts, in the order of `ast.walk`."""
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
    """Return every statement in ``node``, itself left out, in the order of `ast.walk`; no expression is looked at."""
    found: list[ast.AST] = [node]
    for each in found:
        for name in each._fields:
            if name in _BLOCKS:
                found += getattr(each, name)
    return [each for each in found[1:] if isinstance(each, ast.stmt)]
