"""Python's own parser says which bodies of functions nobody asks about can go, and they can be put back.

Parsing a file without those takes a fraction of the time that a lossless syntax tree of all of it takes.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Interest:
    """The names of functions and classes, and the files, whose every statement somebody looks at.

    ``around`` are names of what these are defined in.
    """

    names: frozenset[str]
    files: frozenset[str]
    around: frozenset[str] = frozenset()


_SIGN = b"#~patchkit "
_PLACE = re.compile(rb"^[ \t]*\.\.\.  " + _SIGN + rb"(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Reduced:
    """A source without some bodies of functions: each left a line with its number behind."""

    source: bytes
    bodies: tuple[bytes, ...] = ()

    def restored(self, source: bytes) -> bytes:
        """Return what became of ``source`` with the bodies put back."""
        return _PLACE.sub(lambda found: self.bodies[int(found[1])], source) if self.bodies else source


def without_bodies(source: bytes, tree: ast.Module, interest: Interest) -> Reduced:
    """Return the source, which parses as ``tree``, with bodies of functions only in what is of interest."""
    if _SIGN in source:
        return Reduced(source)
    lines = source.splitlines(keepends=True)
    kept: list[bytes] = []
    bodies: list[bytes] = []
    after = 0
    for body in _unwanted(tree, interest):
        start = min(node.lineno for node in (body[0], *getattr(body[0], "decorator_list", ()))) - 1
        indent = lines[start][: body[0].col_offset]
        if not indent.strip():  # A body on the line of its header is short enough to stay.
            text = b"".join(lines[start : body[-1].end_lineno])
            left = indent + b"...  %s%d" % (_SIGN, len(bodies))
            kept += [*lines[after:start], left + b"\n" * text.endswith(b"\n")]
            bodies.append(text.removesuffix(b"\n"))
            after = body[-1].end_lineno or 0
    return Reduced(b"".join((*kept, *lines[after:])), tuple(bodies))


def _unwanted(node: ast.AST, interest: Interest) -> Iterator[list[ast.stmt]]:
    for child in ast.iter_child_nodes(node):
        if getattr(child, "name", None) in interest.names:
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            if child.name not in interest.around:
                yield child.body
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _unwanted(child, interest)
