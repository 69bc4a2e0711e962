"""Follow the lines that writes of patchkit put into a file, and tell which of them a person changed."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from patchkit.tree.source import INVALID, first_line, parsed, parsed_or_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Writes = Sequence[tuple[bytes | None, bytes | None, tuple[str, ...]]]
    """What each write of a file found and left, and its patches."""


class CodeLine(NamedTuple):
    """A line of code without its layout and comments, and the dotted name of the class or function around it."""

    code: str
    scope: str

    @property
    def is_import(self) -> bool:
        """Whether it is the first line of an import."""
        return self.code.startswith(("import ", "from "))


@dataclass(frozen=True)
class Passage:
    """Lines of one scope that a write put in place of ``replaced``, the numbers of lines of what was there before."""

    before: tuple[CodeLine, ...]
    replaced: tuple[int, ...]
    patches: tuple[str, ...]
    size: int


class LostLine(NamedTuple):
    """A line of a passage that a person changed or removed, and what stands ``instead`` in its scope or a new one."""

    line: CodeLine
    passage: Passage
    instead: tuple[str, ...]


class Followed(NamedTuple):
    """What became of lines that patchkit wrote: whether any is there, and those that are lost.

    Lines of a passage in whose place stands again what stood there before are not among these: it is gone.
    """

    is_there: bool
    lost: tuple[LostLine, ...]


def followed(writes: Writes, current: bytes | None) -> Followed:
    """Follow the lines that each write added through the later ones to a file's current content.

    Layout and comments do not count, unless the writes added nothing else or the file is not valid Python now.
    """
    is_code = parsed_or_none(current or b"") is not None and any(
        _code(before) != _code(after) for before, after, _ in writes
    )
    is_comments = all(_adds_comments(before, after) for before, after, _ in writes)
    lines = _comments if is_comments else _code if is_code else _text
    # Where each write found what the one before it left, and the code is as the last one left it, nothing is lost.
    if all(left == earlier for (_, left, _), (earlier, _, _) in pairwise(writes)) and (
        lines(writes[-1][1]) == lines(current)
    ):
        return Followed(is_there=True, lost=())
    there: dict[int, Passage] = {}
    lost: list[LostLine] = []
    last: tuple[CodeLine, ...] = ()
    for before, after, patches in writes:
        old, new = lines(before), lines(after)
        there = _carried(last, old, there, lost)
        there = _carried(old, new, there, [])
        for tag, start, end, begin, stop in _opcodes(old, new):
            for scope in {line.scope for line in new[begin:stop]} if tag != "equal" else ():
                replaced = tuple(index for index in range(start, end) if old[index].scope == scope)
                written = [index for index in range(begin, stop) if new[index].scope == scope]
                there |= dict.fromkeys(written, Passage(old, replaced, patches, len(written)))
        last = new
    now = lines(current)
    there = _carried(last, now, there, lost)
    sizes = Counter(id(lost_line.passage) for lost_line in lost)
    is_empty = not (current or b"").strip()
    return Followed(
        bool(there),
        tuple(
            lost_line
            for lost_line in lost
            if is_empty
            or sizes[id(lost_line.passage)] < lost_line.passage.size
            or not _is_back(lost_line, now)
        ),
    )


def is_replaced(before: bytes | None, after: bytes | None, current: bytes | None) -> bool:
    """Return whether other code stands in place of a passage of a write, and no line of it anywhere in the file.

    Imports do not count: a formatter joins them.
    """
    added = _added(before, after)
    if all(line.startswith("#") for line in added.difference(line.code for line in _text(current))):
        return False
    there = {line.code for line in _code(current)}
    lost = [
        lost_line
        for lost_line in followed([(before, after, ())], current).lost
        if lost_line.line.code not in there
    ]
    sizes = Counter(id(lost_line.passage) for lost_line in lost)
    return any(
        lost_line.instead
        and not lost_line.line.is_import
        and sizes[id(lost_line.passage)] == lost_line.passage.size
        for lost_line in lost
    )


def _carried(
    old: tuple[CodeLine, ...],
    new: tuple[CodeLine, ...],
    there: dict[int, Passage],
    lost: list[LostLine],
) -> dict[int, Passage]:
    """Return the lines by their numbers in ``new``; those that it lacks are added to ``lost``, with what it has."""
    if old == new or not there:
        return there
    moved: dict[int, Passage] = {}
    scopes = {line.scope for line in old}
    for tag, start, end, begin, stop in _opcodes(old, new):
        for index in range(start, end):
            if index in there and tag == "equal":
                moved[begin + index - start] = there[index]
            elif index in there:
                # A person may have renamed a definition, or put other code in place of one that the write added.
                is_added = old[index].scope not in {line.scope for line in there[index].before}
                around = old[index].scope.rpartition(".")[0] if is_added else old[index].scope
                others = scopes - {old[index].scope, around}
                instead = tuple(line.code for line in new[begin:stop] if line.scope not in others)
                lost.append(LostLine(old[index], there[index], instead))
    return moved


def _is_back(lost: LostLine, now: tuple[CodeLine, ...]) -> bool:
    """Return whether the lines that a passage replaced stand in its place, so that it can be made again."""
    passage = lost.passage
    kept = {
        index
        for tag, start, end, _, _ in _opcodes(passage.before, now)
        if tag == "equal"
        for index in range(start, end)
    }
    replaced = [passage.before[index].code for index in passage.replaced]
    # Of lines of a person's own beside them nobody can tell where none was replaced.
    instead = [code for code in lost.instead if code in replaced] if replaced else [*lost.instead]
    return instead == replaced and kept.issuperset(passage.replaced)


def _opcodes(
    old: tuple[CodeLine, ...], new: tuple[CodeLine, ...]
) -> Sequence[tuple[str, int, int, int, int]]:
    before, after = ([line.code for line in lines] for lines in (old, new))
    return SequenceMatcher(None, before, after, autojunk=False).get_opcodes()


def _adds_comments(before: bytes | None, after: bytes | None) -> bool:
    added = _added(before, after)
    return bool(added) and all(line.startswith("#") for line in added)


def _added(before: bytes | None, after: bytes | None) -> set[str]:
    return {line.code for line in _text(after)} - {line.code for line in _text(before)}


@lru_cache(maxsize=4)
def _code(text: bytes | None) -> tuple[CodeLine, ...]:
    """Return the lines of a file's code as its syntax tree has them; of a file that is not Python, its lines."""
    try:
        code = ast.unparse(parsed(text or b""))
        lines, scopes = code.split("\n"), dict(_scopes(parsed(code), ""))
    except INVALID:
        return _text(text)
    return tuple(CodeLine(line, scopes.get(index, "")) for index, line in enumerate(lines, 1) if line.strip())


def _text(text: bytes | None) -> tuple[CodeLine, ...]:
    return tuple(CodeLine(line.strip(), "") for line in text_lines(text or b"") if line.strip())


def _comments(text: bytes | None) -> tuple[CodeLine, ...]:
    return tuple(line for line in _text(text) if line.code.startswith("#"))


def _scopes(node: ast.AST, name: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers of the lines in each class and function with its dotted name, the inner ones last."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # No expression contains a definition.
            continue
        inner = name
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{name}.{child.name}" if name else child.name
            yield from ((index, inner) for index in range(first_line(child) + 1, (child.end_lineno or 0) + 1))
        yield from _scopes(child, inner)


def text_lines(text: bytes) -> list[str]:
    """Return a file's lines without their line endings; bytes that are not UTF-8 are replaced."""
    return text.decode(errors="replace").replace("\r\n", "\n").split("\n")
