"""Each patch's state on many refs of a repository, read from git's objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from patchkit.matrix.refs import left_out, refs
from patchkit.matrix.survey import survey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from patchkit.matrix.survey import Surveyed
    from patchkit.matrix.tasks import Task
    from patchkit.patchset.select import PatchSet


def matrix(
    repository: Path,
    patterns: Sequence[str],
    patches: PatchSet,
    *,
    tasks: Sequence[Task[Any]] = (),
    jobs: int | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Surveyed:
    """Return each patch's state on each ref of ``repository`` that ``patterns`` name; nothing is checked out.

    ``tasks`` are what else is asked of the trees, such as whether they verify (``patchkit.matrix.tasks``). ``watch``
    is told what is being done, how much of it is done and of how much. UsageError for a pattern that names
    nothing, TreeError if ``repository`` is none.
    """
    found = survey(repository, refs(repository, patterns), patches, tasks=tasks, jobs=jobs, watch=watch)
    return replace(found, notes=left_out(repository, patterns))
