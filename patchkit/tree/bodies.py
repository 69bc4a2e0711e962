"""Strip the functions that no patch looks into before a source is parsed, and restore them afterwards.

Python's parser finds the functions, of which only the names are left. libcst parses the stripped source in a fraction
of the time of the whole file.
"""

from __future__ import annotations

import ast
import codecs
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.tree.nodes import statements
from patchkit.tree.source import first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class NeededBodies:
    """The functions and classes, by name, and the files whose bodies must be parsed.

    ``around`` are the names of the functions and classes that enclose them. ``seeking`` are pairs of a function's or
    class's name, empty for a module, and words: of its functions, those that have all of the words. ``own`` has what is
    needed of a file unless something that was expected in another one is found there.
    """

    names: frozenset[str]
    files: frozenset[str]
    around: frozenset[str] = frozenset()
    seeking: frozenset[tuple[str, frozenset[str]]] = frozenset()
    own: Mapping[str, NeededBodies] = field(default_factory=dict[str, "NeededBodies"], compare=False)

    def joined(self, other: NeededBodies) -> NeededBodies:
        """Return one that includes both."""
        return NeededBodies(
            self.names | other.names,
            self.files | other.files,
            self.around | other.around,
            self.seeking | other.seeking,
        )


_SIGN = b"#~patchkit "
_PLACE = re.compile(rb"^.*def \w+\(\):\n[ \t]*\.\.\.  " + _SIGN + rb"([0-9a-f]+)$", re.MULTILINE)
_OUTER = re.compile(rb"\b(?:global|nonlocal)\b|:=")


@dataclass(frozen=True)
class ReducedSource:
    """A source in which some functions are replaced by a line with the function's name and its text's digest.

    The line is the same whatever else is replaced, so that its function's syntax tree is shared.
    """

    source: bytes
    bodies: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes])

    def restored(self, source: bytes) -> bytes:
        """Return an edited ``source`` with the stripped functions restored."""
        return _PLACE.sub(lambda match: self.bodies[match[1]], source) if self.bodies else source


class Reduction:
    """A source reduced for all that was needed so far, so that plans of different patches share its syntax tree.

    None stands for the whole source.
    """

    def __init__(self) -> None:
        self._known: tuple[NeededBodies | None, ReducedSource] | None = None

    def made(
        self, needed: NeededBodies | None, reduce: Callable[[NeededBodies | None], ReducedSource]
    ) -> ReducedSource:
        """Return the source with at least the ``needed`` bodies; call ``reduce`` if it lacks any of them."""
        if self._known is not None:
            before, reduced = self._known
            if before is None or (needed is not None and before.joined(needed) == before):
                return reduced
            needed = needed and before.joined(needed)
        reduced = reduce(needed)
        self._known = needed, reduced
        return reduced


def without_bodies(source: bytes, tree: ast.Module, needed: NeededBodies) -> ReducedSource:
    """Return the source, whose parse is ``tree``, without the functions outside ``needed`` but their names.

    Functions that bind a variable of an enclosing scope stay, since they change what its name may mean there.
    """
    if _SIGN in source:
        return ReducedSource(source)
    lines = source.splitlines(keepends=True)
    kept: list[bytes] = []
    bodies: dict[bytes, bytes] = {}
    after = 0
    seeking: dict[str | None, list[frozenset[str]]] = {}
    for name, words in needed.seeking:
        seeking.setdefault(name, []).append(words)
    for function in _Search(lines, needed, seeking).unwanted(tree, seeking.get("", ())):
        start, body = first_line(function), first_line(function.body[0])
        indent = lines[body][: function.body[0].col_offset]
        text = b"".join(lines[start : function.end_lineno])
        # A body on the line of its header is short enough to stay.
        if not indent.strip() and not text.startswith(codecs.BOM_UTF8):
            digest = hashlib.blake2b(text, digest_size=8).hexdigest().encode()
            word = b"async def " if isinstance(function, ast.AsyncFunctionDef) else b"def "
            header = text[: function.col_offset] + word + function.name.encode() + b"():\n"
            stub = header + indent + b"...  " + _SIGN + digest
            kept += [*lines[after:start], stub + b"\n" * text.endswith(b"\n")]
            bodies[digest] = text.removesuffix(b"\n")
            after = function.end_lineno or 0
    return ReducedSource(b"".join((*kept, *lines[after:])), bodies)


@dataclass(frozen=True)
class _Search:
    """A search for the functions of a source that are not needed."""

    lines: Sequence[bytes]
    needed: NeededBodies
    seeking: Mapping[str | None, Collection[frozenset[str]]]

    def unwanted(
        self, node: ast.AST, sought: Collection[frozenset[str]]
    ) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield the functions below ``node``; ``sought`` are the words that are sought in it."""
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", None)
            if name in self.needed.names:
                continue
            within = (*sought, *self.seeking.get(name, ()))
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                if name in self.needed.around or self._has_any(child, within) or self._binds_outside(child):
                    continue
                if child.name.isascii():  # The source may spell others in another way.
                    yield child
            elif isinstance(child, ast.stmt | ast.ExceptHandler):
                yield from self.unwanted(child, within)

    def _has_any(self, function: ast.stmt, sought: Collection[frozenset[str]]) -> bool:
        text = self._text(function) if sought else b""
        return any(all(word.encode() in text for word in words) for words in sought)

    def _binds_outside(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        if _OUTER.search(self._text(function)) is None:
            return False
        header = b"".join(self.lines[first_line(function) : function.body[0].lineno])
        return b":=" in header or any(
            isinstance(statement, ast.Global | ast.Nonlocal) for statement in statements(function)
        )

    def _text(self, function: ast.stmt) -> bytes:
        return b"".join(self.lines[first_line(function) : function.end_lineno])
