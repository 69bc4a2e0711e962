"""Compare files without the wording of the patches' comments, which another version of a patch may have changed."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from patchkit.plan.comments import COMMENT_PREFIX, commenting_patches
from patchkit.plan.status import noted_in

_COMMENT = re.compile(rb"[ \t]*%s([\w.-]+): " % COMMENT_PREFIX.encode())


class _WordedLine(NamedTuple):
    """A line, or a patch's comments on adjacent lines; rows with equal keys differ in words at most."""

    key: bytes
    text: bytes
    is_comment: bool


def with_wording_of(other: bytes | None, text: bytes | None) -> bytes | None:
    """Return ``text`` with the words of ``other`` in each comment of a patch that both have at the same place."""
    if text is None or other is None or text == other:
        return text
    rows, others = _rows(text), _rows(other)
    if {row for row in rows if row.is_comment} <= {row for row in others if row.is_comment}:
        return text
    # Lines that both texts contain separate the comments of one patch.
    codes = SequenceMatcher(
        None, [row.key for row in rows], [row.key for row in others], autojunk=False
    ).get_opcodes()
    result = [row.text for row in rows]
    for tag, start, end, other_start, other_end in codes:
        if tag == "equal":
            pairs = zip(range(start, end), others[other_start:other_end], strict=True)
            result[start:end] = [
                other_row.text if other_row.is_comment else rows[index].text for index, other_row in pairs
            ]
    return b"".join(result)


def patch_comments(text: bytes | None, patch: str) -> list[bytes]:
    """Return a patch's comments in a file, in order."""
    return [
        row.text for row in _rows(text or b"") if row.is_comment and patch in commenting_patches(row.text)
    ]


def _rows(text: bytes) -> list[_WordedLine]:
    worded: list[_WordedLine] = []
    for key, lines in groupby(text.splitlines(keepends=True), _comment_key):
        if key is None:
            worded += [_WordedLine(line, line, is_comment=False) for line in lines]
        else:
            worded.append(_WordedLine(key, b"".join(lines), is_comment=True))
    return worded


def _comment_key(line: bytes) -> bytes | None:
    """Return a comment of a patch without its words; None for other lines, and for notes of edits made by hand."""
    comment = _COMMENT.match(line)
    return comment[0] if comment and not noted_in(line) else None
