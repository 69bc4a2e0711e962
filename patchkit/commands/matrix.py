"""Compute each patch's state on many refs of a repository, with each ref's own configuration."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.errors import TreeError, UsageError
from patchkit.matrix.answer import Matrix, PatchRow
from patchkit.matrix.refs import left_out, refs
from patchkit.matrix.survey import SurveyResult, survey
from patchkit.patchset import configuration
from patchkit.tree.fork import places
from patchkit.tree.objects import GitFork, GitRepository, GitTree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from patchkit.change.land import Watch
    from patchkit.matrix.refs import Ref
    from patchkit.matrix.tasks import Task
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.fork import Fork

    PatchesOf = Callable[[Fork], PatchSet]


def matrix(
    repository: Path,
    patterns: Sequence[str],
    patches: PatchSet,
    *,
    patches_of: PatchesOf | None = None,
    tasks: Sequence[Task[Any]] = (),
    jobs: int | None = None,
    watch: Watch | None = None,
) -> SurveyResult:
    """Return each patch's state on each ref of ``repository`` that matches ``patterns``, without a checkout.

    ``patches_of`` loads the patches of a ref that has a configuration; other refs use ``patches``. ``tasks`` are
    further work on the trees, such as verification (``patchkit.matrix.tasks``). ``watch`` is called with the current
    step, the number of trees done, and their total. Raise UsageError for a pattern that matches nothing, TreeError if
    ``repository`` is not a repository.
    """
    named = refs(repository, patterns)
    sets_of = _PatchSets(patches, patches_of)
    with GitRepository(repository) as git:
        sets = {ref: sets_of.of(git, ref) for ref in named}
    parts = []
    for patch_set in dict.fromkeys(result for result in sets.values() if not isinstance(result, str)):
        chosen = [ref for ref in named if sets[ref] is patch_set]
        parts.append(survey(repository, chosen, patch_set, tasks=tasks, jobs=jobs, watch=watch))
    merged = _merged(repository, patches, parts)
    refused = {
        ref.name: PatchRow(ref.name, ref.commit, error=reason)
        for ref, reason in sets.items()
        if isinstance(reason, str)
    }
    rows = refused | {row.ref: row for row in merged.matrix.rows}
    combined = msgspec.structs.replace(merged.matrix, rows=tuple(rows[ref.name] for ref in named))
    return SurveyResult(combined, merged.answers, left_out(repository, patterns))


class _PatchSets:
    """The patch sets of refs; refs with the same configuration share one."""

    def __init__(self, patches: PatchSet, patches_of: PatchesOf | None) -> None:
        self._patches = patches
        self._patches_of = patches_of
        self._known: dict[tuple[str, ...], PatchSet] = {}

    def of(self, git: GitRepository, ref: Ref) -> PatchSet | str:
        """Return the patch set of a ref, or the reason why it has none."""
        if self._patches_of is None:
            return self._patches
        try:
            fork = GitFork(git, ref.commit, GitTree(git, ref.commit).place)
            key = (fork.package, *(fork.entry(name)[1] for name in places(fork)))
            if self._known.get(key) is self._patches:
                return self._patches
            content = configuration.read(fork)
            if content is None:
                return self._known.setdefault(key, self._patches)
            names = (posixpath.join(content.root, name) for name in content.content.patches)
            key += tuple(fork.entry(name)[1] or ref.commit for name in names)
            if key not in self._known:
                self._known[key] = self._patches_of(fork)
            return self._known[key]
        except TreeError:
            return self._patches  # The survey reports that the ref has no tree.
        except UsageError as error:
            return str(error)


def _merged(repository: Path, patches: PatchSet, parts: Sequence[SurveyResult]) -> SurveyResult:
    """Merge surveys of refs with different patch sets."""
    answers: dict[str, dict[str, Any]] = {}
    for part in parts:
        for task, part_answers in part.answers.items():
            answers.setdefault(task, {}).update(part_answers)
    ids = dict.fromkeys(name for part in parts for name in part.matrix.patches) if parts else patches.ids
    matrix = Matrix(
        str(parts[0].matrix.repository if parts else repository),
        tuple(ids),
        tuple(row for part in parts for row in part.matrix.rows),
        sum(part.matrix.states for part in parts),
        sum(part.matrix.examined for part in parts),
        round(sum(part.matrix.seconds for part in parts), 3),
    )
    return SurveyResult(matrix, answers)
