"""Lines of a docstring, or of a text that a name is bound to, of which each side changes others, changed in both.

Git has a conflict where such lines touch. They are merged where one of them begins an item or a sentence.
"""

from __future__ import annotations

import ast
import itertools
import re
from typing import TYPE_CHECKING

from patchkit.change.lines import hunks, with_hunks
from patchkit.tree.source import INVALID, parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.change.lines import LineHunk

_START = re.compile(r"\s*(?:[-*] |:?\w[\w ]*:(?:\s|$))")
_END = re.compile(r"(?:[.:]|^)\s*$")


def united_lines(parts: Sequence[str], before: Sequence[str], wholes: Sequence[str]) -> str:
    """Return the merge of three versions of some lines of a text; empty if that is not sure, or they are code.

    ``before`` are the lines above them in each version of the file, and ``wholes`` these versions.
    """
    if not all(_is_prose(*version) for version in zip(parts, before, wholes, strict=True)):
        return ""
    base, *sides = [part.splitlines(keepends=True) for part in parts]
    own, others = [hunks(base, side) for side in sides]
    both = sorted([*own, *(hunk for hunk in others if hunk not in own)])
    if not all(_are_apart(base, one, other) for one, other in itertools.pairwise(both)):
        return ""
    return with_hunks(base, both)


def _is_prose(part: str, before: str, whole: str) -> bool:
    """Return whether lines of a file are inside a string that is a statement, or the value of one."""
    try:
        tree = parsed(whole)
    except INVALID:
        return False
    first = before.count("\n") + 1
    values = (node.value for node in ast.walk(tree) if isinstance(node, (ast.Expr, ast.Assign)))
    return any(
        isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and value.lineno < first
        and first + part.count("\n") <= (value.end_lineno or 0)
        for value in values
    )


def _are_apart(base: Sequence[str], one: LineHunk, other: LineHunk) -> bool:
    """Return whether two changes have a line between them, or touch where an item or a sentence begins."""
    if one.end < other.start:
        return True
    above, below = (base[: one.end] if one.end > one.start else one.lines)[-1], (other.lines or [""])[0]
    return (
        one.end == other.start
        and all(hunk.end == hunk.start or _is_rewording(base, hunk) for hunk in (one, other))
        and (one.end > one.start or other.end > other.start)
        and _indent(below) <= _indent(one.lines[0] if one.end == one.start else above)
        and bool(_START.match(below) or _END.search(above))
    )


def _is_rewording(base: Sequence[str], hunk: LineHunk) -> bool:
    """Return whether lines are replaced one by one, with their indentation."""
    old = base[hunk.start : hunk.end]
    return [*map(_indent, old)] == [*map(_indent, hunk.lines)]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
