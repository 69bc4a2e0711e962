"""The comments of a text, and those that a change leaves."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from patchkit.change.tokens import WORDS
from patchkit.lines import lines_with_ends, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMENT = re.compile(r"\#[^\n]*")


def loses_comments(ours: str, base: str, result: str) -> bool:
    """Return whether ``ours`` has comments that ``base`` does not have and that are not in ``result`` either."""
    return bool(comments(ours) - comments(base) - comments(result))


def comments(text: str) -> Counter[str]:
    """Return the comments of a text."""
    return Counter(comment for comment in words_and_comments(text) if comment.startswith("#"))


def words_and_comments(text: str) -> list[str]:
    """Return the words, signs and comments of a text in order."""
    return [
        comment
        for match in WORDS.finditer(text)
        for comment in (*_COMMENT.findall(match[0].removesuffix(match[1] or "")), match[1])
        if comment
    ]


def stripped_lines(text: str) -> list[str]:
    """Return the lines of a text that are not blank, without the white space around them."""
    return [line.strip() for line in split_lines(text) if line.strip()]


def remaining_comments(old: Sequence[str], new: Sequence[str], ours: str) -> str | None:
    """Return a text without the lines that are in ``old`` and not in ``new``; None if ``new`` has lines of its own."""
    rest = iter(old)
    if not all(line in rest for line in new):
        return None
    removed, remaining = Counter(old) - Counter(new), []
    for line in lines_with_ends(ours):
        if removed[line.strip()] > 0:
            removed[line.strip()] -= 1
        else:
            remaining.append(line)
    return "".join(remaining)


def remaining_lead(removed: str, ours: str) -> str:
    """Return what stays of the comments and blank lines above a statement that goes with those in ``removed``."""
    comments = remaining_comments(stripped_lines(removed), [], ours) or ""
    if comments.strip():
        return comments
    blank, removed_blank = (
        [line for line in lines_with_ends(text) if not line.strip()] for text in (ours, removed)
    )
    return "".join(blank[len(removed_blank) :])


def merged_blank_lines(base: str, theirs: str, ours: str) -> str:
    """Return the comments above a statement with the change's blank lines above them, if they had those of its base."""
    return spaced_as(theirs, ours) if _top(ours)[0] == _top(base)[0] else ours


def spaced(base: str, theirs: str, ours: str, comments: str) -> str:
    """Return ``comments``, which remain of ``ours``, with the blank lines above that a merge of the three has."""
    return spaced_as(theirs if _top(ours)[0] == _top(base)[0] else ours, comments)


def spaced_as(other: str, lead: str) -> str:
    """Return the comments above a statement with as many blank lines above them as other ones have."""
    return "\n" * _top(other)[0] + _top(lead)[1]


def _top(lead: str) -> tuple[int, str]:
    """Return the number of blank lines at the beginning, and the rest."""
    lines = lines_with_ends(lead)
    number = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return number, "".join(lines[number:])
