"""Apply patches and commit each on the current branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.plan.fitting import fitting_plan
from patchkit.plan.planner import Planner
from patchkit.plan.refusal import require_fitting
from patchkit.series.commit import commit as committing
from patchkit.series.commit import prepare
from patchkit.transaction.conflicts import read_without_conflicts
from patchkit.transaction.origins import origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.series.commit import CommitResult, PreparedCommit
    from patchkit.tree.tree import CheckoutTree


def commit(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str] = (),
    *,
    only: bool = False,
    keep_going: bool = False,
    runtime: str = "",
) -> CommitResult:
    """Apply patches as ``apply`` does, with one commit for each patch on the current branch.

    Branch, index, files and ledger are changed only after all commits have been made. Raise TreeError if the files have
    uncommitted changes or git cannot commit now, and RefusedCommitError if a hook rejects a commit.
    """
    requested, runtime = patches.requested(ids), runtime or patches.settings.runtime

    def prepared(read: CheckoutTree) -> PreparedCommit:
        planner = Planner(read, patches, runtime)
        planned = fitting_plan(lambda without: planner.plan(ids, only=only, without=without))
        if not keep_going:
            require_fitting(planned, requested)
        return prepare(read, planner.combined_plan(planned, origin(read, planner)), patches)

    return committing(tree, read_without_conflicts(tree, prepared), patches, runtime)
