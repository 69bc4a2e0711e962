"""Python's own parser says which bodies of functions nobody asks about can go.

Parsing a file without those takes a fraction of the time that a lossless syntax tree of all of it takes.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Interest:
    """The names of functions and classes, and the files, whose every statement somebody looks at."""

    names: frozenset[str]
    files: frozenset[str]


def without_bodies(source: bytes, tree: ast.Module, names: frozenset[str]) -> bytes:
    """Return the source, which parses as ``tree``, with bodies of functions only in what ``names`` has."""
    lines = source.splitlines(keepends=True)
    for body in reversed(list(_unwanted(tree, names))):
        start = min(node.lineno for node in (body[0], *getattr(body[0], "decorator_list", ()))) - 1
        indent = lines[start][: body[0].col_offset]
        if not indent.strip():  # A body on the line of its header is short enough to stay.
            lines[start : body[-1].end_lineno] = [indent + b"...\n"]
    return b"".join(lines)


def _unwanted(node: ast.AST, names: frozenset[str]) -> Iterator[list[ast.stmt]]:
    for child in ast.iter_child_nodes(node):
        if getattr(child, "name", None) in names:
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.body
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _unwanted(child, names)
