"""A patch's commit says what, why and at what risk, and names itself and upstream's commit in trailers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch

TRAILER = "Patchkit-Patch"
_WIDTH = 72


def message(patch: Patch) -> str:
    """Return the commit message of a patch."""
    paragraphs = [_filled(patch.why)]
    if patch.risk:
        paragraphs.append(_filled(f"Risk: {patch.risk}"))
    if patch.upstream:
        paragraphs.append(patch.upstream)
    trailers = [f"{TRAILER}: {patch.id}"]
    if patch.upstream_commit:
        trailers.append(f"Upstream-Commit: {patch.upstream_commit}")
    return "\n\n".join([" ".join(patch.title.split()), *paragraphs, "\n".join(trailers)]) + "\n"


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)
