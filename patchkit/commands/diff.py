"""What apply would do to a tree, and what a person needs to see of each conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.plan import conflict
from patchkit.plan.fitting import fitting
from patchkit.plan.planner import Planner
from patchkit.transaction.origins import origin
from patchkit.transaction.whole import require_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.conflict import Conflict
    from patchkit.plan.status import Plan
    from patchkit.tree.tree import CheckoutTree


def diff(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> Plan:
    """Return what applying ``ids`` (none: all that are on) with what they need would do, without what does not fit."""
    require_whole(tree)
    planner = Planner(tree, patches, patches.wishes.runtime)
    planned = fitting(lambda without: planner.plan(ids, closely=True, without=without))
    return planner.together(planned, origin(tree, planner))


def conflicts(plan: Plan) -> tuple[Conflict, ...]:
    """Return what a person needs to see of each conflict of a plan: the site as found, as expected, and the edit."""
    return conflict.conflicts(plan.tree, plan.patches)
