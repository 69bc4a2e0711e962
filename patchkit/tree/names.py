"""Reject names in git tree objects that would lead out of their folder.

These are git's checkout rules for all systems together, since a repository may be copied from one to another.
"""

from __future__ import annotations

import re

# On NTFS, `git~1`, trailing dots and spaces, and a stream after a colon all name the folder `.git`.
_DOT_GIT = re.compile(r"(?:\.git|git~1)[. ]*(?::.*)?", re.IGNORECASE | re.DOTALL)
# HFS+ ignores these characters.
_UNSEEN = {
    code: None
    for first, last in ((0x200C, 0x200F), (0x202A, 0x202E), (0x206A, 0x206F), (0xFEFF, 0xFEFF))
    for code in range(first, last + 1)
}


def is_unsafe(name: str) -> bool:
    """Return whether a path with this component could lead out of its folder or into ``.git``."""
    seen = name.translate(_UNSEEN)
    return (
        name in {"", ".", ".."}
        or any(sign in name for sign in "/\\\0")
        or _DOT_GIT.fullmatch(seen) is not None
    )


def is_outside(file: str) -> bool:
    """Return whether a path from the package leads out of it."""
    return file.startswith("../")
