"""Write the messages of commits that make and revert patches, with trailers that name these."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from patchkit.patchset.patch import TODO
from patchkit.transaction.history import REVERTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.patch import Patch

TRAILER = "Patchkit-Patch"
_WIDTH = 72


def message(patches: Sequence[Patch], prefix: str = "") -> str:
    """Return the commit message of a patch, or of several committed together; its subject starts with ``prefix``.

    It has a patch's title, reason and risk.
    """
    first, *others = patches
    subject = f"{prefix}{_one_line(first.title) or first.id}{_more(others)}"
    paragraphs = _paragraphs(first)
    for patch in others:
        also = ": ".join(filter(None, (f"Also {patch.id}", _finished(patch.title))))
        paragraphs += [_filled(also), *_paragraphs(patch)]
    trailers = [line for patch in patches for line in _trailers(patch)]
    return "\n\n".join([subject, *paragraphs, "\n".join(trailers)]) + "\n"


def revert_message(titles: Mapping[str, str], prefix: str = "") -> str:
    """Return the message of a commit that reverts patches, given their titles by id."""
    first, *others = titles
    subject = f"{prefix}Revert {_one_line(titles[first]) or first}{_more(others)}"
    reverted = (
        f"- {name}: {title}" if (title := _one_line(titles[name])) else f"- {name}" for name in titles
    )
    listed = "\n".join(["Reverted with patchkit:", *reverted])
    return "\n\n".join([subject, listed, "\n".join(f"{REVERTED}: {name}" for name in titles)]) + "\n"


def _one_line(title: str) -> str:
    return " ".join(_finished(title).split())


def _more(others: Sequence[object]) -> str:
    return f" (and {len(others)} more)" if others else ""


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
