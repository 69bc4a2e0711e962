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
    between = (match[0].removesuffix(match[1] or "") for match in WORDS.finditer(text))
    return Counter(comment for space in between for comment in _COMMENT.findall(space))


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
