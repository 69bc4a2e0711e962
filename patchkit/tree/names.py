"""The names that an entry of a tree object may not have: those with which a path leads out of its folder.

These are git's own rules for a checkout, of every system at once: a repository that is copied brings its names along.
"""

from __future__ import annotations

import re

# NTFS takes `git~1`, dots and spaces at the end, and a stream behind a colon for the folder `.git` itself.
_DOT_GIT = re.compile(r"(?:\.git|git~1)[. ]*(?::.*)?", re.IGNORECASE | re.DOTALL)
# HFS+ takes no notice of these.
_UNSEEN = {
    code: None
    for first, last in ((0x200C, 0x200F), (0x202A, 0x202E), (0x206A, 0x206F), (0xFEFF, 0xFEFF))
    for code in range(first, last + 1)
}


def is_unsafe(name: str) -> bool:
    """Tell whether a path with this name in it would not be a file of the folder that has the name."""
    seen = name.translate(_UNSEEN)
    return (
        name in {"", ".", ".."}
        or any(sign in name for sign in "/\\\0")
        or _DOT_GIT.fullmatch(seen) is not None
    )
