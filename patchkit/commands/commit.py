"""Patches are applied in one commit each on the current branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.commands.planning import plan_for
from patchkit.plan.at_hand import PatchesAtHand
from patchkit.plan.refusal import PlanConflictError, describe_conflicts
from patchkit.series.commit import commit as committing
from patchkit.transaction import revert as reverting
from patchkit.transaction.at_once import at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import Plan
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

    TreeError, and nothing written, if the files have uncommitted changes or git cannot commit now;
    RefusedCommitError if a hook refuses one: that patch is taken back, those before it stay committed.
    """
    at_hand = PatchesAtHand(tree, patches)

    def plan(ids: Sequence[str], *, only: bool) -> Plan:
        return at_once(tree, plan_for(tree, patches, ids, only=only, runtime=runtime), at_hand)

    planned = plan(ids, only=only)
    conflicts = describe_conflicts(planned.patches)
    if conflicts and not keep_going:
        raise PlanConflictError(
            f"{conflicts}, so nothing was written: --keep-going applies the others.", planned
        )
    return committing(
        tree,
        planned,
        lambda name: plan((name,), only=True),
        patches.digest,
        lambda name: reverting.revert(tree, frozenset({name}), at_hand),
    )
