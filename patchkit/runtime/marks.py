"""Every comment that a patch leaves starts alike: one text for who writes it and for who looks for it."""

from __future__ import annotations

MARK = "patchkit "
"""What such a comment says first; the patch's id and a colon follow."""

SIGN = f"# {MARK}"
"""The same as it stands in a file."""
