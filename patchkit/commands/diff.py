"""Compute what apply would change in a tree, and describe the conflicts."""

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
    """Return what ``apply`` of ``ids`` (default: the default patches) would do, without the patches that do not fit."""
    require_whole(tree)
    planner = Planner(tree, patches, patches.settings.runtime)
    planned = fitting(lambda without: planner.plan(ids, closely=True, without=without))
    return planner.together(planned, origin(tree, planner))


def conflicts(plan: Plan) -> tuple[Conflict, ...]:
    """Return each conflict of a plan with the found code, the expected code and the code that the edit would write."""
    return conflict.conflicts(plan.tree, plan.patches)
