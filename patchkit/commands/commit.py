"""Patches are applied in one commit each on the current branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.plan.planner import Planner
from patchkit.plan.refusal import PlanConflictError, describe_conflicts
from patchkit.series.commit import commit as committing
from patchkit.transaction.origins import origin
from patchkit.transaction.whole import require_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.series.commit import Committed
    from patchkit.tree.tree import CheckoutTree


def commit(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str] = (),
    *,
    only: bool = False,
    keep_going: bool = False,
    runtime: str = "",
) -> Committed:
    """Apply as ``apply`` does, in one commit a patch on the current branch.

    TreeError if the files have uncommitted changes or git cannot commit now, RefusedCommitError if a hook refuses
    a commit. Branch, index, files and ledger change when all commits are made, and not before.
    """
    require_whole(tree)
    planner = Planner(tree, patches, runtime)
    planned = planner.together(planner.plan(ids, only=only), origin(tree, planner))
    left = describe_conflicts(planned.patches)
    if left and not keep_going:
        raise PlanConflictError(f"{left}, so nothing was written: --keep-going applies the others.", planned)
    return committing(tree, planned, patches, runtime)
