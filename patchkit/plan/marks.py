"""Every comment that a patch leaves starts alike: one text for who writes it and for who looks for it."""

from __future__ import annotations

import re

MARK = "patchkit "
"""What such a comment says first; the patch's id and a colon follow."""

SIGN = f"# {MARK}"
"""The same as it stands in a file."""

_SIGNED = re.compile(SIGN.encode() + rb"([\w.-]+): ")


def signers(source: bytes) -> frozenset[str]:
    """Return the ids of the patches that left a comment in a file."""
    return frozenset(name.decode() for name in _SIGNED.findall(source))
