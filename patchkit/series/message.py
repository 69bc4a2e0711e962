"""Write a patch's commit message: title, reason, risk, and trailers that name the patch and upstream's commit."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.patch import Patch

TRAILER = "Patchkit-Patch"
_WIDTH = 72


def message(patches: Sequence[Patch], prefix: str = "") -> str:
    """Return the commit message of a patch, or of several committed together; its subject starts with ``prefix``."""
    first, *others = patches
    title = " ".join(first.title.split())
    paragraphs = _paragraphs(first)
    for patch in others:
        paragraphs += [_filled(f"Also {patch.id}: {patch.title}"), *_paragraphs(patch)]
    trailers = [line for patch in patches for line in _trailers(patch)]
    more = f" (and {len(others)} more)" if others else ""
    return "\n\n".join([prefix + title + more, *paragraphs, "\n".join(trailers)]) + "\n"


def _paragraphs(patch: Patch) -> list[str]:
    risk = [_filled(f"Risk: {patch.risk}")] if patch.risk else []
    return [_filled(patch.why), *risk, *([patch.upstream] if patch.upstream else [])]


def _trailers(patch: Patch) -> list[str]:
    commit = [f"Upstream-Commit: {patch.upstream_commit}"] if patch.upstream_commit else []
    return [f"{TRAILER}: {patch.id}", *commit]


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)
