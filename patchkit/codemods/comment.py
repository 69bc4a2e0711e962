"""Inserted statements carry one comment that says which patch put them there and why."""

from __future__ import annotations

from typing import TypeVar

import libcst as cst

Statement = TypeVar("Statement", bound=cst.BaseStatement)


def annotate(statement: Statement, note: str) -> Statement:
    """Return ``statement`` with ``note`` as the comment line directly above it.

    An equal comment is not repeated, an empty note not written.
    """
    if not note:
        return statement
    lines = list(statement.leading_lines)  # type: ignore[attr-defined]
    line = f"# {note}"
    if any(existing.comment is not None and existing.comment.value == line for existing in lines):
        return statement
    return statement.with_changes(leading_lines=[*lines, cst.EmptyLine(comment=cst.Comment(line))])
