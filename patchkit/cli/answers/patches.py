"""The answers of ``show``, with a patch and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer
from patchkit.patchset.patch import Affects  # noqa: TC001  # schemas are made of it
from patchkit.patchset.runs import Run  # noqa: TC001  # schemas are made of it
from patchkit.plan.status import name_of

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch
    from patchkit.patchset.runs import KnownRuns


class ShownPart(Answer, frozen=True, kw_only=True):
    """A part of a patch; ``left_out`` is the reason why the fork's configuration leaves it out."""

    name: str
    title: str
    why: str
    upstream: str
    risk: str
    no_switch: str
    formerly: str = ""
    left_out: str = ""


class Listed(Answer, frozen=True, kw_only=True):
    """A patch in the list of ``show``; ``left_out`` is the reason why the fork's configuration leaves it out."""

    id: str
    title: str
    upstream: str
    risk: str
    no_switch: str
    requires: tuple[str, ...]
    parts: tuple[ShownPart, ...]
    default: bool
    group: str = ""
    left_out: str = ""


class ShownPlace(Answer, frozen=True, kw_only=True):
    """A place that an edit changes: a file in the package folder, and the dotted name in it (empty: its top level)."""

    file: str
    site: str


class ShownEdit(Answer, frozen=True, kw_only=True):
    """An edit of a patch; it is made at the first of ``places`` that a tree has."""

    name: str
    description: str
    places: tuple[ShownPlace, ...]
    part: str = ""


class Show(Listed, frozen=True, kw_only=True):
    """The answer of ``show PATCH``; ``runs`` is null if it is unknown where the patch ran.

    ``runs`` are those of the edits that are of no part. ``affects`` is null for a patch that fixes nothing.
    """

    why: str
    affects: Affects | None
    verify: str
    edits: tuple[ShownEdit, ...]
    runs: tuple[Run, ...] | None
    runs_of_parts: dict[str, tuple[Run, ...] | None]

    @classmethod
    def of_patch(cls, patch: Patch, known_runs: KnownRuns) -> Show:
        """Return the answer for a patch and its runs."""
        return cls.of(
            patch,
            edits=tuple(
                ShownEdit.of(
                    edit,
                    description=edit.why,
                    places=tuple(ShownPlace(file=file, site=site) for file, site in edit.places),
                )
                for edit in patch.edits
            ),
            runs=known_runs.where(patch.id),
            runs_of_parts={part.name: known_runs.where(name_of(patch, part)) for part in patch.parts},
        )
