"""Python's own parser says what a file defines, and which bodies of functions nobody asks about can go.

Parsing a file without those takes a fraction of the time that a lossless syntax tree of all of it takes.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Interest:
    """The names of functions and classes, and the files, whose every statement somebody looks at."""

    names: frozenset[str]
    files: frozenset[str]


class Headers:
    """A file as Python parses it; SyntaxError or ValueError for one that this Python cannot parse."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # What Python thinks of the file's strings is not asked here.
            self._tree = ast.parse(source)

    def bases(self, owner: str) -> list[str] | None:
        """Return the last names of the bases of a class, ``None`` where there is not one such class."""
        owners = [node for node in self._tree.body if isinstance(node, ast.ClassDef) and node.name == owner]
        if len(owners) != 1:
            return None
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in owners[0].bases]
        return [ast.unparse(base).rsplit(".", 1)[-1] for base in bases]

    def without_bodies(self, names: frozenset[str]) -> bytes:
        """Return the source in which functions have a body only if ``names`` has them or what they are in."""
        lines = self._source.splitlines(keepends=True)
        for body in reversed(list(_unwanted(self._tree, names))):
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
