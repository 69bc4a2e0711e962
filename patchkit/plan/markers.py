"""Conflict markers as git writes them: around what was found, what was expected, and what an edit wanted to do.

A file that has them is no Python, so nobody serves it by mistake; what it is without them can still be told.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.plan.marks import SIGN
from patchkit.plan.status import FileChange, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.plan.conflict import Conflict
    from patchkit.plan.status import Plan

_START = re.compile(rb"<<<<<<< found \(patchkit (\S+) (\S+)\)\s*\Z")
_BASE = re.compile(rb"\|\|\|\|\|\|\| expected\s*\Z")
_END = re.compile(rb">>>>>>> wanted \(patchkit (\S+) (\S+), \S+\)\s*\Z")


class HalfError(ValueError):
    """Some of the markers of a conflict were taken out; ``line`` is where one of the others stands."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


@dataclass(frozen=True)
class Block:
    """The conflict of an edit in a file: lines ``start`` to ``end``, from 0, of which the first are markers.

    ``found`` is how many lines behind the first marker are what was found.
    """

    patch: str
    edit: str
    start: int
    end: int
    found: int


def with_markers(plan: Plan) -> Plan:
    """Return a plan that writes, besides what is certain, a conflict into the file of every edit that has a place.

    A patch that requires one in conflict gets none: its own sites may become certain with that.
    """
    from patchkit.plan.conflict import conflicts
    from patchkit.tree.tree import OverlayTree

    stuck = {status.patch.id for status in plan.patches if status.state is State.CONFLICT}
    first = [status for status in plan.patches if not stuck & set(status.patch.requires)]
    changes = {change.file: change for change in plan.changes}
    planned = OverlayTree(plan.tree, {file: change.after for file, change in changes.items()})
    marked: dict[str, list[Conflict]] = {}
    for conflict in conflicts(planned, first):
        if conflict.line:
            marked.setdefault(conflict.file, []).append(conflict)
    for file, inside in marked.items():
        text = planned.read(file) or b""
        known = changes.get(file, FileChange(file, text, text, ()))
        patches = tuple(dict.fromkeys((*known.patches, *(conflict.patch for conflict in inside))))
        changes[file] = replace(known, after=_marked(text, inside), patches=patches)
    return replace(plan, changes=tuple(changes.values()))


def _marked(text: bytes, conflicts: Sequence[Conflict]) -> bytes:
    lines = text.splitlines(keepends=True)
    newline = newline_of(text)
    encoding = tokenize.detect_encoding(io.BytesIO(text).readline)[0]
    if lines and not lines[-1].endswith((b"\n", b"\r")):
        lines[-1] += newline
    # Last one first, so that the lines of those before stay right.
    placed: list[tuple[int, int, Conflict]] = []
    for conflict in sorted(conflicts, key=lambda each: (each.line, -each.end)):
        start, end = conflict.line - 1, conflict.end - 1
        if placed and start < placed[-1][1]:
            start = end = placed[-1][0]
        placed.append((start, end, conflict))
    for start, end, conflict in sorted(placed, key=lambda each: each[:2], reverse=True):
        name = f"patchkit {conflict.patch} {conflict.edit}"
        wanted = f"{SIGN}{conflict.patch}: {conflict.why}\n{conflict.wanted}"
        indent = indent_of(lines[start]) if start < len(lines) else b""

        def written(code: str, indent: bytes = indent) -> list[bytes]:
            said = (line.encode(encoding, "backslashreplace") for line in code.splitlines())
            return [(indent + line if line else line) + newline for line in said]

        lines[start:end] = [
            *_line(f"<<<<<<< found ({name})", newline),
            *lines[start:end],
            *_line("||||||| expected", newline),
            *written(conflict.expected),
            *_line("=======", newline),
            *written(wanted),
            *_line(f">>>>>>> wanted ({name}, {conflict.kind})", newline),
        ]
    return b"".join(lines)


def _line(text: str, newline: bytes) -> list[bytes]:
    return [text.encode() + newline]


def newline_of(text: bytes) -> bytes:
    """Return what ends the lines of a text."""
    return b"\r\n" if text.partition(b"\n")[0].endswith(b"\r") else b"\n"


def indent_of(line: bytes) -> bytes:
    """Return the white space that a line begins with."""
    return line[: len(line) - len(line.lstrip(b" \t"))]


def blocks_in(text: bytes) -> tuple[Block, ...]:
    """Return the conflicts that stand in a text; HalfError where one lacks some of its markers."""
    if b"(patchkit " not in text:
        return ()
    blocks: list[Block] = []
    opened: tuple[int, bytes, bytes] | None = None
    found: int | None = None
    for number, line in enumerate(text.splitlines()):
        start, end = _START.match(line), _END.match(line)
        if (start and opened) or (end and (opened is None or found is None or end.groups() != opened[1:])):
            raise HalfError(number + 1)
        if start:
            opened, found = (number, start[1], start[2]), None
        elif opened and found is None and _BASE.match(line):
            found = number - opened[0] - 1
        elif end and opened and found is not None:
            blocks.append(Block(opened[1].decode(), opened[2].decode(), opened[0], number + 1, found))
            opened = None
    if opened:
        raise HalfError(opened[0] + 1)
    return tuple(blocks)


def as_found(text: bytes, blocks: Sequence[Block] | None = None) -> bytes:
    """Return a text with what was found in place of its conflicts, or of ``blocks`` alone."""
    lines = text.splitlines(keepends=True)
    for block in reversed(blocks_in(text) if blocks is None else blocks):
        lines[block.start : block.end] = lines[block.start + 1 : block.start + 1 + block.found]
    return b"".join(lines)


def without_same(was: bytes, stands: bytes) -> tuple[bytes, bytes]:
    """Return two texts without their conflicts if those are the same in both, else as they are."""
    try:
        same = _contents(was) == _contents(stands)
    except HalfError:
        return was, stands
    return (as_found(was), as_found(stands)) if same else (was, stands)


def _contents(text: bytes) -> list[tuple[bytes, ...]]:
    lines = text.splitlines()
    return [tuple(lines[block.start : block.end]) for block in blocks_in(text)]
