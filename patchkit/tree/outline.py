"""What of a file a definition depends on: itself, what it stands in, and the statements beside definitions.

Two versions of a file in which that is the same say the same of the definition, whatever their other definitions are.
"""

from __future__ import annotations

import ast
import hashlib
import re
from array import array
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_GLOBAL = re.compile(rb"\bglobal\b")


class Outline:
    """Where the statements of a source stand, which parses as ``tree``, and those in its classes."""

    def __init__(self, source: bytes, tree: ast.Module) -> None:
        self._source = source
        ends = (found.end() for found in re.finditer(rb"\n", source))
        self._starts = array("L", [0, *ends, len(source)])
        self._body = _statements(tree.body, 0, len(self._starts) - 1)
        self._known: dict[tuple[str, tuple[str, ...]], str] = {}

    def part(self, dotted: str, names: tuple[str, ...]) -> str:
        """Return a name of all that a definition depends on that reads ``names`` from around it."""
        if (dotted, names) not in self._known:
            words = tuple(name.encode() for name in names)
            text = b"\0".join(self._visible(self._body, dotted.split("."), words))
            self._known[dotted, names] = hashlib.blake2b(text, digest_size=16).hexdigest()
        return self._known[dotted, names]

    def hides(self, site: str, dotted: str) -> bool:
        """Tell whether what an edit of ``site`` changes is no part of what a definition depends on."""
        return self._hidden(self._body, site.split("."), dotted.split("."))

    def _hidden(self, body: list[_Statement], site: Sequence[str], dotted: Sequence[str]) -> bool:
        named = [each for each in body if each.name == site[0]]
        sign = re.compile(rb"\b(?:class|def)\s+" + re.escape(site[0].encode()) + rb"\b")
        beside = (self._text(each.start, each.end) for each in body if not each.name)
        if not named or any(map(sign.search, beside)):
            return False
        if site[0] != dotted[0]:
            return True
        is_inside = len(site) > 1 and len(dotted) > 1
        return is_inside and all(
            bool(each.body) and self._hidden(each.body, site[1:], dotted[1:]) for each in named
        )

    def _visible(
        self, body: Iterable[_Statement], parts: Sequence[str], names: tuple[bytes, ...]
    ) -> Iterator[bytes]:
        for each in body:
            if not each.name:
                yield self._text(each.start, each.end)
                yield self._without_blank(each.end, each.before)
            elif each.name != parts[0]:
                text = self._text(each.start, each.end)
                # What binds a name for others: the definition itself, or a statement in it that says so.
                is_read = any(name in text for name in names)
                if each.name.encode() in names or (is_read and _GLOBAL.search(text) is not None):
                    yield text
            elif each.body and len(parts) > 1:
                yield self._text(each.start, each.header)
                yield from self._visible(each.body, parts[1:], names)
            else:
                # The comments around it are part of its syntax tree, blank lines say nothing.
                yield self._without_blank(each.after, each.start)
                yield self._text(each.start, each.end)
                yield self._without_blank(each.end, each.before)

    def _text(self, start: int, end: int) -> bytes:
        return self._source[self._starts[start] : self._starts[end]]

    def _without_blank(self, start: int, end: int) -> bytes:
        return b"\n".join(line for line in self._text(start, end).splitlines() if line.strip())


class _Statement:
    """The lines of a statement; ``after`` and ``before`` are where its neighbours end and start.

    ``name`` is that of a definition, and of a class ``header`` is where its ``body`` starts.
    """

    __slots__ = ("after", "before", "body", "end", "header", "name", "start")

    def __init__(self, node: ast.stmt, after: int, limit: int) -> None:
        first = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
        self.after = after
        self.start = first - 1
        self.end = node.end_lineno or node.lineno
        self.before = limit
        self.name: str = node.name if isinstance(node, _DEFINITIONS) else ""
        self.header = self.start
        self.body: list[_Statement] = []
        if isinstance(node, ast.ClassDef):
            self.body = _statements(node.body, self.start, limit)
            self.header = self.body[0].start
            self.body[0].after = self.header


def _statements(nodes: Sequence[ast.stmt], after: int, limit: int) -> list[_Statement]:
    found: list[_Statement] = []
    for node in nodes:
        found.append(_Statement(node, after, limit))
        after = found[-1].end
    for one, other in pairwise(found):
        one.before = other.start
    return found
