"""The error for a plan with conflicts, and the sentences that name the conflicting patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from patchkit.plan.status import PatchStatus, Plan


class PlanConflictError(ConflictError):
    """Some of the patches conflict with the tree, so nothing was written; ``plan`` has the conflicts."""

    def __init__(self, what: str, plan: Plan, *, advice: str = "") -> None:
        super().__init__(what, advice=advice)
        self.plan = plan


def describe_conflicts(statuses: Iterable[PatchStatus]) -> str:
    """Return a clause that names the conflicting patches, empty if there are none."""
    ids = [status.patch.id for status in statuses if status.state is State.CONFLICT]
    return f"{', '.join(ids)} {'conflict' if len(ids) > 1 else 'conflicts'} with this tree" if ids else ""


def describe_left_out(left_out: Mapping[str, str]) -> str:
    """Return a sentence that names the patches that a plan leaves out, empty if there are none."""
    return f"Left out because of conflicts: {', '.join(left_out)}." if left_out else ""


def require_fitting(plan: Plan, requested: Collection[str], remedy: str = "") -> None:
    """Raise PlanConflictError, with the ``remedy`` in its advice, if the plan leaves out a requested patch."""
    if not any(name in requested for name in plan.left_out):
        return
    conflicting = describe_conflicts(plan.patches)
    remedies = [
        "--keep-going applies the others" if plan.changes else "",
        remedy,
    ]
    advice = ", ".join(filter(None, remedies)) or "edit that code and try again"
    raise PlanConflictError(f"{conflicting}, so nothing was written", plan, advice=advice)
