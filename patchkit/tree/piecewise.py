"""Parse a module definition by definition: modules that share a function or a method share its syntax tree.

A source is cut in front of lines that begin a definition. Each part is parsed with a statement behind it, which takes
the lines that libcst gives to the next statement. If every part is valid, the whole is what they consist of; if one is
not, as in a string that has such a line, or may be parsed otherwise alone, the source is parsed whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from patchkit import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_INDENT = "    "
_NEXT = "pass\n"
_EMPTY = cst.Module(())
_DEFINITION = re.compile(r"^(@|class |def |async def )", re.MULTILINE)
_MEMBER = re.compile(rf"^{_INDENT}(@|class |def |async def )", re.MULTILINE)
_CLASS = re.compile(r"^class ", re.MULTILINE)
_ENCODED = re.compile(rb"\xef\xbb\xbf|(?:.*\n)?.*coding")
_CONTINUED = re.compile(rb"^[ \t]*\\$", re.MULTILINE)


class _IndivisibleError(Exception):
    """A source whose parts may not be parsed alone as they are in the whole."""


@dataclass(frozen=True)
class _Part:
    """Some of a source's lines: ``members`` of a class that began before them, and top-level statements.

    ``footer`` is the end of that class. Of a module's first lines and its last ones, ``header`` and ``end`` are its
    own. The last ``trailing`` lines belong to the next part.
    """

    members: tuple[cst.BaseStatement, ...] = ()
    footer: Sequence[cst.EmptyLine] = ()
    statements: tuple[cst.BaseStatement, ...] = ()
    header: Sequence[cst.EmptyLine] = ()
    end: Sequence[cst.EmptyLine] = ()
    trailing: int = 0
    has_trailing_newline: bool = True


_PARTS: memory.RecentCache[tuple[object, ...], _Part] = memory.RecentCache(1 << 12)
_SOURCES: memory.RecentCache[tuple[cst.CSTNode, bool], str] = memory.RecentCache(1 << 13)


def parse(source: bytes) -> cst.Module:
    """Return what ``libcst.parse_module`` returns, or raise what it raises; modules share their common parts."""
    if not _is_unusual(source):
        try:
            return _Parse().module(source.decode())
        except (_IndivisibleError, cst.ParserSyntaxError, UnicodeDecodeError):
            pass
    return cst.parse_module(source)


def _is_unusual(source: bytes) -> bool:
    """Return whether a source has line ends or an encoding, which count for all of it, or continues white space."""
    if b"\r" in source or b"\f" in source or b"\0" in source or _ENCODED.match(source) is not None:
        return True
    return b"\\\n" in source and _CONTINUED.search(source) is not None


def source_of(
    statement: cst.BaseStatement, indent: str, newline: str, write: Callable[[], str], *, is_member: bool
) -> str:
    """Return the source of a top-level statement, or of a member of a class; ``write`` returns it if it is not known.

    ``indent`` is that of the members of a class, ``newline`` that of the module.
    """
    if indent != _INDENT or newline != "\n":
        return write()
    return _SOURCES.get((statement, is_member), write)


def mentions(statement: cst.BaseStatement, names: Iterable[str], *, is_member: bool) -> bool:
    """Return whether a statement's source has one of the names as a part, or is not known."""
    key = (statement, is_member)
    if key not in _SOURCES:
        return True
    text = _SOURCES.get(key, str)
    return any(name in text for name in names)


def _note(statements: Sequence[cst.BaseStatement], text: str, trailing: int, *, is_member: bool) -> None:
    """Keep the source of what was parsed, if that is one statement."""
    if len(statements) == 1:
        _SOURCES.get((statements[0], is_member), lambda: text[: _before(text, len(text), trailing)])


def _cuts(starts: re.Pattern[str], text: str, after: int = 0) -> list[int]:
    """Return where definitions start behind a place; a decorator and what it decorates are one."""
    offsets: list[int] = []
    is_decorated = False
    for start in starts.finditer(text, after):
        if start.start() > after and not is_decorated:
            offsets.append(start.start())
        is_decorated = start[1] == "@"
    return offsets


def _before(text: str, cut: int, lines: int) -> int:
    """Return where that many lines before a cut start."""
    for _ in range(lines):
        cut = text.rfind("\n", 0, cut - 1) + 1
    return cut


def _module(text: str) -> cst.Module:
    module = cst.parse_module(text)
    if module.default_indent != _INDENT or module.default_newline != "\n":
        raise _IndivisibleError
    return module


def _parted(body: Sequence[cst.BaseStatement], behind: str) -> tuple[tuple[cst.BaseStatement, ...], int]:
    """Return statements without the one that was put ``behind`` them, and how many lines it took from them."""
    if not behind:
        return tuple(body), 0
    *own, last = body or (None,)
    if type(last) is not cst.SimpleStatementLine or len(last.body) != 1 or type(last.body[0]) is not cst.Pass:
        raise _IndivisibleError
    return tuple(own), len(last.leading_lines)


def _first(text: str) -> _Part:
    """Parse the lines before the first definition."""
    module = _module(text + _NEXT)
    statements, trailing = _parted(module.body, _NEXT)
    return _Part(statements=statements, header=module.header, trailing=trailing)


def _definition(text: str, behind: str) -> _Part:
    """Parse a definition and what is below it."""
    module = _module(text + behind)
    (defined, *below), trailing = _parted(module.body, behind)
    statements = (defined.with_changes(leading_lines=module.header), *below)
    if behind:
        _note(statements, text, trailing, is_member=False)
    return _Part(
        statements=statements,
        end=module.footer,
        trailing=trailing,
        has_trailing_newline=module.has_trailing_newline,
    )


def _class_of(statement: cst.CSTNode) -> tuple[cst.ClassDef, cst.IndentedBlock]:
    if type(statement) is not cst.ClassDef or type(statement.body) is not cst.IndentedBlock:
        raise _IndivisibleError
    return statement, statement.body


def _head(text: str) -> _Part:
    """Parse a class up to its first definition."""
    module = _module(text + _INDENT + _NEXT)
    if len(module.body) > 1:
        raise _IndivisibleError
    definition, block = _class_of(module.body[0])
    members, trailing = _parted(block.body, _NEXT)
    return _Part(
        members, statements=(definition.with_changes(leading_lines=module.header),), trailing=trailing
    )


def _member(text: str, behind: str) -> _Part:
    """Parse a member of a class, and what is below it or, after the last one, below the class."""
    module = _module(f"class _:\n{text}{behind}")
    _, block = _class_of(module.body[0])
    below = module.body[1:]
    if behind.startswith(_INDENT):
        if below:
            raise _IndivisibleError
        members, trailing = _parted(block.body, behind)
        _note(members, text, trailing, is_member=True)
        return _Part(members, trailing=trailing)
    statements, trailing = _parted(below, behind)
    return _Part(
        tuple(block.body),
        block.footer,
        statements,
        end=module.footer,
        trailing=trailing,
        has_trailing_newline=module.has_trailing_newline,
    )


class _Parse:
    """One parse. A module has each node once, so lines that it has twice are parsed twice."""

    def __init__(self) -> None:
        self._seen: set[tuple[object, ...]] = set()

    def module(self, text: str) -> cst.Module:
        cuts = _cuts(_DEFINITION, text)
        if not cuts:
            raise _IndivisibleError
        parts = [self._part(_first, text[: cuts[0]])]
        for cut, end in zip(cuts, (*cuts[1:], len(text)), strict=True):
            start = _before(text, cut, parts[-1].trailing)
            parts.append(self._top(text[start:end], cut - start, _NEXT if end < len(text) else ""))
        return _EMPTY.with_changes(
            body=tuple(statement for part in parts for statement in part.statements),
            header=parts[0].header,
            footer=parts[-1].end,
            has_trailing_newline=parts[-1].has_trailing_newline,
        )

    def _part(self, parse: Callable[..., _Part], *what: str) -> _Part:
        key = parse, *what
        if key in self._seen:
            return parse(*what)
        self._seen.add(key)
        return _PARTS.get(key, lambda: parse(*what))

    def _top(self, text: str, start: int, behind: str) -> _Part:
        is_class = _CLASS.search(text, start)
        cuts = _cuts(_MEMBER, text, start) if is_class else []
        if len(cuts) < 2:
            return self._part(_definition, text, behind)
        parts = [self._part(_head, text[: cuts[0]])]
        for cut, end in zip(cuts, (*cuts[1:], len(text)), strict=True):
            lines = text[_before(text, cut, parts[-1].trailing) : end]
            parts.append(self._part(_member, lines, _INDENT + _NEXT if end < len(text) else behind))
        last = parts[-1]
        definition, block = _class_of(parts[0].statements[0])
        members = tuple(member for part in parts for member in part.members)
        made = definition.with_changes(body=block.with_changes(body=members, footer=last.footer))
        return replace(last, members=(), footer=(), statements=(made, *last.statements))
