"""Compute what apply would change in a tree, and describe the conflicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.commands.apply import renewing
from patchkit.plan import conflict
from patchkit.plan.fitting import fitting_plan
from patchkit.transaction.conflicts import read_without_conflicts
from patchkit.transaction.origins import origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.conflict import Conflict
    from patchkit.plan.status import Plan
    from patchkit.tree.tree import CheckoutTree, ReadTree


def diff(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> Plan:
    """Return what ``apply`` of ``ids`` (default: the default patches) would do, without the patches that do not fit."""

    def planned(read: ReadTree) -> Plan:
        planner, names, older = renewing(read, patches, ids)
        made = fitting_plan(lambda without: planner.plan(names, try_closest_shape=True, without=without))
        return planner.combined_plan(made, origin(read, planner)) if older is None else older.changing(made)

    return read_without_conflicts(tree, planned)


def conflicts(plan: Plan) -> tuple[Conflict, ...]:
    """Return each conflict of a plan with the found code, the expected code and the code that the edit would write."""
    return conflict.conflicts(plan.tree, plan.patches)
