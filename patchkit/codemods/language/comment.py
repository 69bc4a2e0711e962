"""Keep comments across a rewrite, and add the comment that names the patch and its reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from patchkit.codemods.language import syntax

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Statement = TypeVar("Statement", bound=cst.BaseStatement)


class _Collector(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Comment(self, node: cst.Comment) -> None:  # noqa: N802
        self.found.append(node.value)


def comments_in(nodes: Iterable[cst.CSTNode]) -> list[str]:
    """Return the comments in ``nodes``, in source order."""
    collector = _Collector()
    for node in nodes:
        if "#" in syntax.code_of(node):  # Most code has none, and a visit makes each node anew.
            node.visit(collector)
    return collector.found


def lost(before: Iterable[cst.CSTNode], after: Iterable[cst.CSTNode]) -> list[str]:
    """Return the comments that occur more often in ``before`` than in ``after``, in source order."""
    old = comments_in(before)
    if not old:
        return []
    remaining = Counter(comments_in(after))
    missing = []
    for comment in old:
        remaining[comment] -= 1
        if remaining[comment] < 0:
            missing.append(comment)
    return missing


def put_above(statement: Statement, comments: Sequence[str]) -> Statement:
    """Return ``statement`` with ``comments`` as the last lines above it."""
    lines = [*statement.leading_lines, *comment_lines(comments)]  # type: ignore[attr-defined]
    return statement.with_changes(leading_lines=lines)


def comment_lines(comments: Iterable[str]) -> list[cst.EmptyLine]:
    """Return a line with each of the comments."""
    return [cst.EmptyLine(comment=cst.Comment(comment)) for comment in comments]


def annotate(statement: Statement, note: str) -> Statement:
    """Return ``statement`` with ``note`` as the comment line directly above it.

    An existing equal comment is not repeated; an empty note is not written.
    """
    line = f"# {note}"
    comments = [existing.comment for existing in statement.leading_lines]  # type: ignore[attr-defined]
    is_there = any(comment is not None and comment.value == line for comment in comments)
    return put_above(statement, [line] if note and not is_there else [])
