"""Strip the function bodies that no patch looks into before a source is parsed, and restore them afterwards.

Python's parser finds the bodies. libcst parses the stripped source in a fraction of the time of the whole file.
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
    """The functions and classes, by name, and the files whose bodies must be parsed.

    ``around`` are the names of the functions and classes that enclose them.
    """

    names: frozenset[str]
    files: frozenset[str]
    around: frozenset[str] = frozenset()


_SIGN = b"#~patchkit "
_PLACE = re.compile(rb"^[ \t]*\.\.\.  " + _SIGN + rb"(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Reduced:
    """A source in which some function bodies are replaced by a line with the body's number."""

    source: bytes
    bodies: tuple[bytes, ...] = ()

    def restored(self, source: bytes) -> bytes:
        """Return an edited ``source`` with the stripped bodies restored."""
        return _PLACE.sub(lambda found: self.bodies[int(found[1])], source) if self.bodies else source


def without_bodies(source: bytes, tree: ast.Module, interest: Interest) -> Reduced:
    """Return the source, whose parse is ``tree``, without the function bodies outside ``interest``."""
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
