"""Write and read conflict markers in git's format, around the found, the expected and the wanted code.

A file with markers is not valid Python, so it cannot be served by mistake; its text without them can be restored.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from patchkit.lines import encoding_of, split_lines
from patchkit.plan.comments import COMMENT_PREFIX
from patchkit.plan.status import FileChange, State
from patchkit.tree.text import newline_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.plan.conflict import Conflict
    from patchkit.plan.status import Plan

_START = re.compile(rb"<<<<<<< found \(patchkit (\S+) (\S+)\)\s*\Z")
_BASE = re.compile(rb"\|\|\|\|\|\|\| expected\s*\Z")
_END = re.compile(rb">>>>>>> wanted \(patchkit (\S+) (\S+), \S+\)\s*\Z")


class IncompleteMarkersError(ValueError):
    """A conflict lacks some of its markers; ``line`` is the line of a marker that is left."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


class MarkedConflict(NamedTuple):
    """The conflict of an edit in a file: lines ``start`` to ``end``, from 0, including the markers.

    ``found`` is the number of lines of found code, which follow the first marker.
    """

    patch: str
    edit: str
    start: int
    end: int
    found: int


def with_markers(plan: Plan) -> Plan:
    """Return a plan that also writes markers for every edit in conflict that has a location.

    A patch that requires a conflicting one gets no markers, since its sites may match once that one is resolved.
    """
    from patchkit.plan.conflict import conflicts
    from patchkit.plan.landing import marked
    from patchkit.tree.tree import OverlayTree

    conflicting = {status.patch.id for status in plan.patches if status.state is State.CONFLICT}
    first = [status for status in plan.patches if not conflicting & set(status.patch.requires)]
    changes = {change.file: change for change in plan.changes}
    planned = OverlayTree(plan.tree, {file: change.after for file, change in changes.items()})
    diffs = [status for status in first if status.patch.diffs]
    for status in diffs if conflicting else ():
        texts = marked(status.patch, planned) if status.state is State.CONFLICT else {}
        for file, content in texts.items():
            change = changes.get(file, FileChange(file, plan.tree.read(file), content, ()))
            patches = tuple(dict.fromkeys((*change.patches, status.patch.id)))
            changes[file] = replace(change, after=content and _united(content), patches=patches)
        planned = OverlayTree(plan.tree, {file: change.after for file, change in changes.items()})
    sites: dict[str, list[Conflict]] = {}
    for conflict in conflicts(planned, [status for status in first if not status.patch.diffs]):
        if conflict.line:
            sites.setdefault(conflict.file, []).append(conflict)
    for file, inside in sites.items():
        text = planned.read(file) or b""
        change = changes.get(file, FileChange(file, text, text, ()))
        patches = tuple(dict.fromkeys((*change.patches, *(conflict.patch for conflict in inside))))
        changes[file] = replace(change, after=_text_with_markers(text, inside), patches=patches)
    return replace(plan, changes=tuple(changes.values()))


def _united(text: bytes) -> bytes:
    """Return a text in which the conflicts of one edit, and what is between them, are one conflict."""
    for one, other in reversed([*pairwise(marked_conflicts(text))]):
        if (one.patch, one.edit) == (other.patch, other.edit):
            lines = text.splitlines(keepends=True)
            (first, *sides), (*others, last) = (_parts(lines, block) for block in (one, other))
            between = lines[one.end : other.start]
            ours, base, expected, middle, wanted = sides[:5]
            united = (
                *first,
                *(*ours, *between, *others[1]),
                *base,
                *(*expected, *between, *others[3]),
                *middle,
                *(*wanted, *between, *others[5]),
                *last,
            )
            return _united(b"".join((*lines[: one.start], *united, *lines[other.end :])))
    return text


def _parts(lines: Sequence[bytes], block: MarkedConflict) -> list[Sequence[bytes]]:
    """Return a conflict as its markers and, between them, the found, the expected and the wanted code."""
    base = block.start + 1 + block.found
    middle = next(index for index in range(base, block.end) if lines[index].rstrip() == b"=======")
    places = (block.start, block.start + 1, base, base + 1, middle, middle + 1, block.end - 1, block.end)
    return [lines[start:end] for start, end in pairwise(places)]


def _text_with_markers(text: bytes, conflicts: Sequence[Conflict]) -> bytes:
    lines = text.splitlines(keepends=True)
    newline = newline_of(text)
    encoding = encoding_of(text)
    if lines and not lines[-1].endswith((b"\n", b"\r")):
        lines[-1] += newline
    # From last to first, so that earlier line numbers stay valid.
    placed: list[tuple[int, int, Conflict]] = []
    for conflict in sorted(conflicts, key=lambda conflict: (conflict.line, -conflict.end)):
        start, end = conflict.line - 1, conflict.end - 1
        if placed and start < placed[-1][1]:
            start = end = placed[-1][0]
        placed.append((start, end, conflict))
    for start, end, conflict in sorted(placed, key=lambda placing: placing[:2], reverse=True):
        name = f"patchkit {conflict.patch} {conflict.edit}"
        wanted = f"{COMMENT_PREFIX}{conflict.patch}: {conflict.why}\n{conflict.wanted}"
        indent = indent_of(lines[start]) if start < len(lines) else b""

        def written(code: str, indent: bytes = indent) -> list[bytes]:
            encoded = (line.encode(encoding, "backslashreplace") for line in split_lines(code))
            return [(indent + line if line else line) + newline for line in encoded]

        lines[start:end] = [
            f"<<<<<<< found ({name})".encode() + newline,
            *lines[start:end],
            b"||||||| expected" + newline,
            *written(conflict.expected),
            b"=======" + newline,
            *written(wanted),
            f">>>>>>> wanted ({name}, {conflict.kind})".encode() + newline,
        ]
    return b"".join(lines)


def indent_of(line: bytes) -> bytes:
    """Return the indentation of a line."""
    return line[: len(line) - len(line.lstrip(b" \t"))]


def marked_conflicts(text: bytes) -> tuple[MarkedConflict, ...]:
    """Return the conflicts in a text. Raise IncompleteMarkersError if one lacks some of its markers."""
    if b"(patchkit " not in text:
        return ()
    blocks: list[MarkedConflict] = []
    opened: tuple[int, bytes, bytes] | None = None
    middle: int | None = None
    for number, line in enumerate(text.splitlines()):
        start, end = _START.match(line), _END.match(line)
        if (start and opened) or (end and (opened is None or middle is None or end.groups() != opened[1:])):
            raise IncompleteMarkersError(number + 1)
        if start:
            opened, middle = (number, start[1], start[2]), None
        elif opened and middle is None and _BASE.match(line):
            middle = number - opened[0] - 1
        elif end and opened and middle is not None:
            blocks.append(
                MarkedConflict(opened[1].decode(), opened[2].decode(), opened[0], number + 1, middle)
            )
            opened = None
    if opened:
        raise IncompleteMarkersError(opened[0] + 1)
    return tuple(blocks)


def without_markers(text: bytes, blocks: Sequence[MarkedConflict] | None = None) -> bytes:
    """Return a text in which its conflicts, or only ``blocks``, are replaced by the found code."""
    lines = text.splitlines(keepends=True)
    for block in reversed(marked_conflicts(text) if blocks is None else blocks):
        lines[block.start : block.end] = lines[block.start + 1 : block.start + 1 + block.found]
    return b"".join(lines)


def without_equal_conflicts(old: bytes, current: bytes) -> tuple[bytes, bytes]:
    """Return two texts without their conflicts if both have the same ones, otherwise unchanged."""
    try:
        same = _contents(old) == _contents(current)
    except IncompleteMarkersError:
        return old, current
    return (without_markers(old), without_markers(current)) if same else (old, current)


def _contents(text: bytes) -> list[tuple[bytes, ...]]:
    lines = text.splitlines()
    return [tuple(lines[block.start : block.end]) for block in marked_conflicts(text)]
