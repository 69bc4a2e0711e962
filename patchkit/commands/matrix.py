"""Each patch's state on many refs of a repository, read from git's objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.matrix.refs import refs
from patchkit.matrix.survey import survey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from patchkit.matrix.answer import Matrix, PatchDiff
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.conflict import Conflict


def matrix(
    repository: Path,
    patterns: Sequence[str],
    patches: PatchSet,
    *,
    verify: bool = False,
    jobs: int | None = None,
    watch: Callable[[str, int, int], None] | None = None,
    diffs: dict[str, tuple[PatchDiff, ...]] | None = None,
    conflicts: dict[str, tuple[Conflict, ...]] | None = None,
    faults: dict[str, tuple[str, ...]] | None = None,
) -> Matrix:
    """Return each patch's state on each ref of ``repository`` that ``patterns`` name; nothing is checked out.

    With ``verify`` a temporary copy of each package is applied to and verified. ``watch`` is told what is being
    done, how much of it is done and of how much; ``diffs`` is filled with what the patches would change, by
    state, ``conflicts`` with the sites of those that conflict, ``faults`` with what is wrong with what they
    make. UsageError for a pattern that names nothing, TreeError if ``repository`` is none.
    """
    return survey(
        repository,
        refs(repository, patterns),
        patches,
        verify=verify,
        jobs=jobs,
        watch=watch,
        diffs=diffs,
        conflicts=conflicts,
        faults=faults,
    )
