"""Write the messages of commits that make and revert patches, with trailers that name these."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from patchkit.patchset.patch import TODO
from patchkit.plan.status import name_of
from patchkit.transaction.history import REVERTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.patch import Part, Patch
    from patchkit.plan.status import PatchStatus

TRAILER = "Patchkit-Patch"
_WIDTH = 72


def message(statuses: Sequence[PatchStatus], prefix: str = "") -> str:
    """Return the commit message of a patch, or of several committed together; its subject starts with ``prefix``.

    Title, reason, risk and trailers are those of the parts that the commit makes.
    """
    made = [(s.patch, part) for s in statuses for part in s.made or s.patch.all_parts[:1]]
    (patch, first), *others = made
    subject = f"{prefix}{_one_line(first.title) or name_of(patch, first)}{_more(statuses[1:])}"
    paragraphs = _paragraphs(first)
    for patch, part in others:
        also = ": ".join(filter(None, (f"Also {name_of(patch, part)}", _finished(part.title))))
        paragraphs += [_filled(also), *_paragraphs(part)]
    trailers = [line for patch_part in made for line in _trailers(*patch_part)]
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


def _paragraphs(part: Part) -> list[str]:
    risk = _finished(part.risk)
    paragraphs = (_filled(_finished(part.why)), _filled(f"Risk: {risk}") if risk else "", part.upstream)
    return [paragraph for paragraph in paragraphs if paragraph]


def _finished(text: str) -> str:
    """Return a text of a patch, or nothing if it is still to be written."""
    return "" if text.startswith(TODO) else text


def _trailers(patch: Patch, part: Part) -> list[str]:
    commit = [f"Upstream-Commit: {part.upstream_commit}"] if part.upstream_commit else []
    return [f"{TRAILER}: {name_of(patch, part)}", *commit]


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)
