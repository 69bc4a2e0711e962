"""The answers of ``show``, with a patch and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from patchkit.cli.answers.base import Answer
from patchkit.patchset.patch import Affects  # noqa: TC001  # schemas are made of it
from patchkit.patchset.runs import Run  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch


class Listed(Answer, frozen=True, kw_only=True):
    """A patch in the list of ``show``; ``left_out`` is the reason why the fork's configuration leaves it out."""

    id: str
    title: str
    upstream: str
    risk: str
    no_switch: str
    requires: tuple[str, ...]
    hardens: tuple[str, ...]
    default: bool
    group: str = ""
    left_out: str = ""

    @classmethod
    def of(cls, patch: Patch) -> Listed:
        """Return the answer for a patch."""
        return cls(
            id=patch.id,
            title=patch.title,
            upstream=patch.upstream,
            risk=patch.risk,
            no_switch=patch.no_switch,
            requires=patch.requires,
            hardens=patch.hardens,
            default=patch.default,
            group=patch.group,
            left_out=patch.left_out,
        )


class ShownEdit(Answer, frozen=True, kw_only=True):
    """An edit of a patch."""

    name: str
    description: str


class Show(Listed, frozen=True, kw_only=True):
    """The answer of ``show PATCH``; ``runs`` is null if it is unknown where the patch ran.

    ``affects`` is null for a patch that fixes nothing.
    """

    why: str
    affects: Affects | None
    verify: str
    edits: tuple[ShownEdit, ...]
    runs: tuple[Run, ...] | None

    @classmethod
    def of_patch(cls, patch: Patch, runs: tuple[Run, ...] | None) -> Show:
        """Return the answer for a patch and its runs."""
        return cls(
            **asdict(Listed.of(patch)),
            why=patch.why,
            affects=patch.affects,
            verify=patch.verify,
            edits=tuple(ShownEdit(name=edit.name, description=edit.why) for edit in patch.edits),
            runs=runs,
        )
