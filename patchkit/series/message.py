"""Write a patch's commit message: title, reason, risk, and trailers that name the patch and upstream's commit."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from patchkit.patchset.patch import TODO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.patch import Patch

TRAILER = "Patchkit-Patch"
_WIDTH = 72


def message(patches: Sequence[Patch], prefix: str = "") -> str:
    """Return the commit message of a patch, or of several committed together; its subject starts with ``prefix``."""
    first, *others = patches
    title = " ".join(_finished(first.title).split()) or first.id
    paragraphs = _paragraphs(first)
    for patch in others:
        also = ": ".join(filter(None, (f"Also {patch.id}", _finished(patch.title))))
        paragraphs += [_filled(also), *_paragraphs(patch)]
    trailers = [line for patch in patches for line in _trailers(patch)]
    more = f" (and {len(others)} more)" if others else ""
    return "\n\n".join([prefix + title + more, *paragraphs, "\n".join(trailers)]) + "\n"


def _paragraphs(patch: Patch) -> list[str]:
    risk = _finished(patch.risk)
    paragraphs = (_filled(_finished(patch.why)), _filled(f"Risk: {risk}") if risk else "", patch.upstream)
    return [paragraph for paragraph in paragraphs if paragraph]


def _finished(text: str) -> str:
    """Return a text of a patch, or nothing if it is still to be written."""
    return "" if text.startswith(TODO) else text


def _trailers(patch: Patch) -> list[str]:
    commit = [f"Upstream-Commit: {patch.upstream_commit}"] if patch.upstream_commit else []
    return [f"{TRAILER}: {patch.id}", *commit]


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)
