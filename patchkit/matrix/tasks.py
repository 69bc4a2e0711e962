"""What can be asked of trees that lie in git, beside the states of patches: each a function of a tree and patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from patchkit.matrix.answer import PatchDiff, Verified
from patchkit.matrix.extent import Extents
from patchkit.plan.conflict import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.matrix.answer import Answer
    from patchkit.patchset.patch import Patch
    from patchkit.tree.git import GitTree

Told = TypeVar("Told")


@dataclass(frozen=True)
class Task(Generic[Told]):
    """A question to each state of the files in which a patch is in one of ``states``, all where that is empty.

    ``work`` answers it in a process of its own, with a ``kind`` that is kept under ``name``; ``doing`` is what is
    said meanwhile. With ``by_package`` it goes to each distinct package, as more counts than what patches read.
    """

    name: str
    doing: str
    kind: type[Told]
    work: Callable[[GitTree, Sequence[Patch]], Told]
    states: frozenset[str] = frozenset()
    by_package: bool = False

    def concerns(self, answer: Answer) -> bool:
        """Tell whether it is asked where the patches are in these states."""
        if answer.error:
            return False
        return not self.states or any(cell.state in self.states for cell in answer.cells)


def _diffs(tree: GitTree, patches: Sequence[Patch]) -> tuple[PatchDiff, ...]:
    """Return what each patch would change, after the patches before it."""
    from patchkit.plan.build import make_series
    from patchkit.plan.diff import unified

    _, stages = make_series(tree, patches)
    return tuple(
        PatchDiff(stage.patch.id, change.file, unified(change, change.file).decode(errors="replace"))
        for stage in stages
        for change in stage.changes
    )


def _conflicts(tree: GitTree, patches: Sequence[Patch]) -> tuple[Conflict, ...]:
    """Return the site of each conflict."""
    from patchkit.plan.build import make_plan
    from patchkit.plan.conflict import conflicts

    return conflicts(tree, make_plan(tree, patches, closely=True).patches)


def _verify(tree: GitTree, patches: Sequence[Patch]) -> Verified:
    """Return whether a copy of the tree verifies with everything applied that can be."""
    from patchkit.findings.finding import Confidence
    from patchkit.plan.build import make_plan
    from patchkit.plan.fitting import fitting
    from patchkit.transaction.apply import Transaction
    from patchkit.transaction.laid_out import lay_out
    from patchkit.tree.scratch import scratch
    from patchkit.tree.tree import open_tree
    from patchkit.verify.engine import verify
    from patchkit.verify.result import Outcome
    from patchkit.verify.subject import Subject, Terms

    Extents(tree.repository).require_bounded(tree)
    with scratch() as folder:
        lay_out(tree, folder / "sglang", ".py")
        copy = open_tree(folder)
        chosen = tuple(patch for patch in patches if patch.default)
        planned = fitting(
            lambda without: make_plan(copy, [each for each in chosen if each.id not in without])
        )
        Transaction(copy, "", allow_dirty=True).commit(planned)
        verdict = verify(Subject(copy, tuple(patches), Terms(Confidence.LIKELY)))
    failed = [result for result in verdict.results if result.outcome is Outcome.FAILED]
    return Verified(verdict.passed, tuple(f"{result.title}: {result.summary}" for result in failed))


VERIFY = Task("verify", "verifying", Verified, _verify, by_package=True)
DIFFS = Task("diffs", "comparing", tuple[PatchDiff, ...], _diffs, states=frozenset({"pending", "partial"}))
CONFLICTS = Task(
    "conflicts", "looking at conflicts", tuple[Conflict, ...], _conflicts, states=frozenset({"conflict"})
)
