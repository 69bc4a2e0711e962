"""The layout of a merged text: git's where that is clean, and this tree's end of the file."""

from __future__ import annotations

import ast

from patchkit.change.comments import words_and_comments
from patchkit.change.lines import clean
from patchkit.tree.source import parsed


def laid_out(base: str, theirs: str, ours: str, text: str) -> str:
    """Return a merged text as a merge by lines lays it out, if that is clean and has the same code and comments."""
    by_lines = clean(base, theirs, ours)
    return by_lines if by_lines is not None and _is_same(by_lines, text) else ended(base, theirs, ours, text)


def _is_same(one: str, other: str) -> bool:
    return one == other or (
        words_and_comments(one) == words_and_comments(other)
        and ast.dump(parsed(one)) == ast.dump(parsed(other))
    )


def ended(base: str, theirs: str, ours: str, text: str) -> str:
    """Return a text whose last line has an end where the change gives it one, or this tree had given it one."""
    is_ended = (theirs if ours.endswith("\n") is base.endswith("\n") else ours).endswith("\n")
    if not text or text.endswith("\n") is is_ended:
        return text
    return f"{text}\n" if is_ended else text.removesuffix("\n")
