"""The prefix of every comment that a patch writes."""

from __future__ import annotations

import re

PREFIX = "patchkit "
"""The prefix of the comment's text; the patch's id and a colon follow it."""

COMMENT_PREFIX = f"# {PREFIX}"
"""The prefix as written in a file."""

_COMMENT = re.compile(COMMENT_PREFIX.encode() + rb"([\w.-]+): ")


def commenting_patches(source: bytes) -> frozenset[str]:
    """Return the ids of the patches that have a comment in a file."""
    return frozenset(name.decode() for name in _COMMENT.findall(source))
