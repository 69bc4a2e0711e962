"""The prefix of every comment that a patch writes."""

from __future__ import annotations

import re

MARK = "patchkit "
"""The prefix without the comment sign; the patch's id and a colon follow it."""

SIGN = f"# {MARK}"
"""The prefix as written in a file."""

_SIGNED = re.compile(SIGN.encode() + rb"([\w.-]+): ")


def signers(source: bytes) -> frozenset[str]:
    """Return the ids of the patches whose comments a file has."""
    return frozenset(name.decode() for name in _SIGNED.findall(source))
