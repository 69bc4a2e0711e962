"""A plan with conflicts is refused in one sentence, and the error has the plan that says where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from patchkit.plan.status import PatchStatus, Plan


class PlanConflictError(ConflictError):
    """Some of the patches conflict with the tree, so none was written; ``plan`` says which and where."""

    def __init__(self, message: str, plan: Plan) -> None:
        super().__init__(message)
        self.plan = plan


def describe_conflicts(statuses: Iterable[PatchStatus]) -> str:
    """Name the conflicting patches in the first half of a sentence; empty if there is none."""
    ids = [status.patch.id for status in statuses if status.state is State.CONFLICT]
    return f"{', '.join(ids)} {'conflict' if len(ids) > 1 else 'conflicts'} with this tree" if ids else ""


def describe_left(left: Mapping[str, str]) -> str:
    """Name the patches that a plan leaves out; empty if there is none."""
    return f"Left out because of conflicts: {', '.join(left)}." if left else ""


def require_fitting(plan: Plan, asked: Collection[str], remedy: str) -> None:
    """Raise PlanConflictError, which ends in the ``remedy``, if the plan leaves out a patch that was asked for."""
    if not any(name in asked for name in plan.left):
        return
    stuck = describe_conflicts(plan.patches)
    hardening = all(s.patch.id not in asked for s in plan.patches if s.state is State.CONFLICT)
    alone = "--only leaves out what hardens, " if hardening else ""
    raise PlanConflictError(f"{stuck}, so nothing was written: {alone}{remedy}.", plan)
