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


def with_added(base: str, theirs: str, ours: str) -> str:
    """Return ``ours`` without the lines that a change removes, and with those that it adds below or above them."""
    old, new = stripped_lines(base), stripped_lines(theirs)
    added = Counter(new) - Counter(old) - Counter(stripped_lines(ours))
    rest = remaining_comments(old, [line for line in old if line in new], ours) or ""
    lines = "".join(line for line in lines_with_ends(theirs) if added[line.strip()])
    return lines + rest if new[0] not in old else rest + lines


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
    return spaced_as(theirs, ours) if blank_lines_above(ours)[0] == blank_lines_above(base)[0] else ours


def spaced(base: str, theirs: str, ours: str, comments: str) -> str:
    """Return ``comments``, which remain of ``ours``, with the blank lines above that a merge of the three has."""
    return spaced_as(theirs if blank_lines_above(ours)[0] == blank_lines_above(base)[0] else ours, comments)


def spaced_as(other: str, lead: str) -> str:
    """Return the comments above a statement with as many blank lines above them as other ones have."""
    return "\n" * blank_lines_above(other)[0] + blank_lines_above(lead)[1]


def blank_lines_above(text: str) -> tuple[int, str]:
    """Return the number of blank lines at the beginning of a text, and the rest of it."""
    lines = lines_with_ends(text)
    number = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    return number, "".join(lines[number:])
