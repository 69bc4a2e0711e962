"""A syntax tree is put together of those of its definitions, each parsed once for all files that have it.

Two versions of a file differ in a few definitions, and parsing is most of what a look at a file takes. A text is cut
in front of definitions, and each piece is parsed by itself, with a statement behind it that shows where it ends: a
piece that ends in a string, in brackets or in a statement that goes on is not Python then. Where all pieces are, what
they come to is what the whole is, blank lines and comments included.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from patchkit import collector

_DEFINITION = r"(?:@|(?:async[ \t]+)?def\b|class\b)"
_INDENT = "    "
_TOP = re.compile(rf"^{_DEFINITION}", re.MULTILINE)
_MEMBER = re.compile(rf"^{_INDENT}{_DEFINITION}", re.MULTILINE)
_CODING = re.compile(rb"^[ \t]*#.*?coding[:=]")
_NOT_PLAIN = (b"\r", b"\f", b"\0", b"\xef\xbb\xbf")
_END = "pass\n"
_AROUND = "class _:\n"


class _DiffersError(Exception):
    """What the pieces come to does not tell what the whole is."""


@dataclass(frozen=True)
class _Lines:
    """Blank lines and comments between two statements; equal where they read the same."""

    lines: tuple[cst.EmptyLine, ...] = field(default=(), compare=False)
    text: tuple[tuple[bool, str, str], ...] = ()

    @classmethod
    def of(cls, lines: tuple[cst.EmptyLine, ...]) -> _Lines:
        said = [(line.indent, line.whitespace.value, line.comment) for line in lines]
        return cls(lines, tuple((indent, space, note.value if note else "") for indent, space, note in said))

    def above(self, first: cst.BaseStatement) -> cst.BaseStatement:
        """Return a statement below these lines; no two statements have one node in common."""
        return first.with_changes(leading_lines=[line.deep_clone() for line in self.lines])


class _Piece(NamedTuple):
    """A part of a text from one definition to the next, or to the end of the file.

    ``line`` is the first of the definition, ``owner`` the class that it stands in, and ``nth`` tells it from others
    there with that line: each has nodes of its own.
    """

    text: str
    line: str
    nth: int
    owner: str
    is_last: bool


class _Parsed(NamedTuple):
    """The statements of a piece, and the lines between them and what comes next."""

    statements: tuple[cst.BaseStatement, ...]
    after: _Lines


def parsed(source: bytes) -> cst.Module:
    """Return the syntax tree of a source as ``libcst.parse_module`` does, and raise what it raises."""
    is_plain = source.endswith(b"\n") and not any(sign in source for sign in _NOT_PLAIN)
    if is_plain and not any(map(_CODING.match, source.split(b"\n", 2)[:2])):
        with suppress(UnicodeDecodeError, cst.ParserSyntaxError, _DiffersError):
            return _put_together(source.decode("utf-8"))
    return cst.parse_module(source)  # It also knows what is wrong.


def _put_together(text: str) -> cst.Module:
    opening, *pieces = _cut(text, _TOP)
    if not pieces:
        raise _DiffersError
    module = _module(opening.text + _END)
    *body, end = module.body
    above = _Lines.of(_leading(end))
    for piece in pieces:
        body += _below(piece, above)
        above = _parsed(piece).after
    return module.with_changes(body=body, footer=above.lines)


def _cut(text: str, definition: re.Pattern[str], owner: str = "", *, is_last: bool = True) -> list[_Piece]:
    """Cut a text in front of definitions and their decorators; the first piece has what comes before those."""
    cuts: list[tuple[int, str]] = [(0, "")]
    is_decorated = False
    for found in definition.finditer(text):
        start = found.start()
        # Behind a line that goes on no statement starts.
        if start and not is_decorated and text[start - 2 : start] != "\\\n":
            cuts.append((start, ""))
        is_decorated = found[0].endswith("@")
        if not is_decorated and len(cuts) > 1:
            cuts[-1] = cuts[-1][0], cuts[-1][1] or text[start : text.index("\n", start)]
    same: Counter[str] = Counter()
    pieces = []
    for number, (start, line) in enumerate(cuts, 1):
        end = cuts[number][0] if number < len(cuts) else len(text)
        pieces.append(_Piece(text[start:end], line, same[line], owner, is_last and number == len(cuts)))
        same[line] += 1
    return pieces


@collector.kept(1 << 12, parts=True)
def _below(piece: _Piece, above: _Lines) -> tuple[cst.BaseStatement, ...]:
    first, *others = _parsed(piece).statements
    return (above.above(first), *others)


@collector.kept(1 << 12, parts=True)
def _parsed(piece: _Piece) -> _Parsed:
    if piece.owner:
        *members, end = _only_block(_module(_AROUND + piece.text + _INDENT + _END)).body
        return _Parsed(tuple(members), _Lines.of(_leading(end)))
    if piece.line.startswith("class"):
        # Where it is no class of that form, the parser says of all of it what it is.
        with suppress(cst.ParserSyntaxError, _DiffersError):
            return _class(piece)
    return _ended(_module(piece.text + _end(piece)), piece)


def _class(piece: _Piece) -> _Parsed:
    opening, *members = _cut(piece.text, _MEMBER, f"{piece.nth} {piece.line}", is_last=piece.is_last)
    if not members:
        raise _DiffersError
    module = _module(opening.text + _INDENT + _END)
    block = _only_block(module)
    *body, end = block.body
    above = _Lines.of(_leading(end))
    for member in members[:-1]:
        body += _below(member, above)
        above = _parsed(member).after
    closing, behind = _closing(members[-1])
    first, *others = closing.body
    whole = block.with_changes(body=(*body, above.above(first), *others), footer=closing.footer)
    return _Parsed((module.body[0].with_changes(body=whole), *behind.statements), behind.after)


@collector.kept(512, parts=True)
def _closing(piece: _Piece) -> tuple[cst.IndentedBlock, _Parsed]:
    """Return the last members of a class, in a block, and what comes behind the class."""
    (around, *others), after = _ended(_module(_AROUND + piece.text + _end(piece)), piece)
    return _block(around), _Parsed(tuple(others), after)


def _ended(module: cst.Module, piece: _Piece) -> _Parsed:
    if piece.is_last:
        return _Parsed(tuple(module.body), _Lines.of(tuple(module.footer)))
    *statements, end = module.body
    return _Parsed(tuple(statements), _Lines.of(_leading(end)))


def _end(piece: _Piece) -> str:
    return "" if piece.is_last else _END


def _module(text: str) -> cst.Module:
    module = cst.parse_module(text)
    if module.default_indent != _INDENT:
        raise _DiffersError
    return module


def _only_block(module: cst.Module) -> cst.IndentedBlock:
    """Return the block of a module's one class, which nothing comes behind."""
    if len(module.body) != 1:
        raise _DiffersError
    return _block(module.body[0])


def _block(statement: cst.CSTNode) -> cst.IndentedBlock:
    if not (isinstance(statement, cst.ClassDef) and isinstance(statement.body, cst.IndentedBlock)):
        raise _DiffersError
    return statement.body


def _leading(statement: cst.CSTNode) -> tuple[cst.EmptyLine, ...]:
    return tuple(statement.leading_lines)  # type: ignore[attr-defined]
