"""The tasks that a survey can run on git trees besides computing states, each a function of a tree and patches."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from patchkit.matrix.answer import PatchDiff, Verified
from patchkit.matrix.extent import Extents
from patchkit.plan.conflict import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.matrix.answer import StateResult
    from patchkit.patchset.patch import Patch
    from patchkit.tree.objects import GitTree

Result = TypeVar("Result")


@dataclass(frozen=True)
class Task(Generic[Result]):
    """A function that a survey runs on each state of the files in which a patch is in one of ``states`` (empty: any).

    ``work`` runs in a separate process and returns a ``kind``, which is cached under ``name``; ``doing`` labels the
    progress bar. With ``by_package`` it runs on each distinct package, for results that depend on further files.
    """

    name: str
    doing: str
    kind: type[Result]
    work: Callable[[GitTree, Sequence[Patch]], Result]
    states: frozenset[str] = frozenset()
    by_package: bool = False

    def concerns(self, answer: StateResult) -> bool:
        """Return whether the task runs on a tree with this answer."""
        if answer.error:
            return False
        return not self.states or any(status.state in self.states for status in answer.patches)


def _diffs(tree: GitTree, patches: Sequence[Patch]) -> tuple[PatchDiff, ...]:
    """Return each patch's diffs, after the patches before it."""
    from patchkit.plan.build import make_series
    from patchkit.plan.diff import unified

    _, stages = make_series(tree, patches)
    return tuple(
        PatchDiff(stage.status.patch.id, change.file, unified(change, change.file).decode(errors="replace"))
        for stage in stages
        for change in stage.changes
    )


def _conflicts(tree: GitTree, patches: Sequence[Patch]) -> tuple[Conflict, ...]:
    """Return the conflicts of a tree, each with its site."""
    from patchkit.plan.build import make_plan
    from patchkit.plan.conflict import conflicts

    return conflicts(tree, make_plan(tree, patches, try_closest_shape=True).patches)


def _verify(tree: GitTree, patches: Sequence[Patch]) -> Verified:
    """Return whether a copy of the tree verifies with every default patch that fits applied."""
    from patchkit.findings.finding import Confidence
    from patchkit.plan.build import make_plan
    from patchkit.plan.fitting import fitting_plan
    from patchkit.transaction.apply import Transaction
    from patchkit.transaction.extract import extract
    from patchkit.tree.scratch import scratch
    from patchkit.tree.tree import open_tree
    from patchkit.verify.engine import verify
    from patchkit.verify.result import CheckState
    from patchkit.verify.subject import Criteria, Subject

    Extents(tree.repository).require_bounded(tree)
    with scratch() as folder:
        package = folder / (posixpath.basename(tree.place) or "package")
        extract(tree, package, ".py")
        copy = open_tree(package)
        chosen = tuple(patch for patch in patches if patch.default)
        planned = fitting_plan(
            lambda without: make_plan(copy, [patch for patch in chosen if patch.id not in without])
        )
        Transaction(copy, allow_dirty=True).commit(planned)
        verdict = verify(Subject(copy, tuple(patches), Criteria(Confidence.LIKELY)))
    failed = [result for result in verdict.results if result.outcome is CheckState.FAILED]
    return Verified(verdict.passed, tuple(f"{result.title}: {result.summary}" for result in failed))


VERIFY = Task("verify", "verifying", Verified, _verify, by_package=True)
DIFFS = Task("diffs", "comparing", tuple[PatchDiff, ...], _diffs, states=frozenset({"pending", "partial"}))
CONFLICTS = Task(
    "conflicts", "looking at conflicts", tuple[Conflict, ...], _conflicts, states=frozenset({"conflict"})
)
