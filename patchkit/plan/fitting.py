"""Leave conflicting patches, and all patches that need them, out of a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from patchkit.plan.status import PatchStatus, Plan

_OPEN = {State.PENDING, State.PARTIAL}
_LEFT_OUT = "left out: "


def fitting_plan(make: Callable[[frozenset[str]], Plan]) -> Plan:
    """Return a plan of all patches that fit; ``make`` plans without the given patches.

    A patch needs the patches that it requires. Each patch that is left out keeps the state in which it was left out.
    """
    plan = make(frozenset())
    by_id = {status.patch.id: status for status in plan.patches}
    left_out: dict[str, str] = {}
    while fresh := {name: why for name, why in _unfit(plan.patches).items() if name not in left_out}:
        left_out |= fresh
        if any(by_id[name].state in _OPEN for name in fresh):
            plan = make(frozenset(left_out))
            by_id |= {status.patch.id: status for status in plan.patches}
    return replace(plan, patches=_with_reasons(by_id.values(), left_out), left_out=left_out)


def with_left_out(statuses: Sequence[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return a tree's statuses, with the reason for each default patch that apply would leave out."""
    return _with_reasons(statuses, _unfit([status for status in statuses if status.patch.default]))


def is_left_out(status: PatchStatus) -> bool:
    """Return whether a status is that of a patch that apply leaves out."""
    return status.state in _OPEN and status.reason.startswith(_LEFT_OUT)


def _with_reasons(statuses: Iterable[PatchStatus], left_out: Mapping[str, str]) -> tuple[PatchStatus, ...]:
    return tuple(
        replace(status, reason=f"{_LEFT_OUT}{left_out[status.patch.id]}")
        if status.patch.id in left_out and status.state in _OPEN
        else status
        for status in statuses
    )


def _unfit(statuses: Sequence[PatchStatus]) -> dict[str, str]:
    """Return the patches that are in conflict or need one that is, each with the reason."""
    unfit = {s.patch.id: s.reason for s in statuses if s.state is State.CONFLICT}
    open_patches = [status for status in statuses if status.state in _OPEN]
    while fresh := {s.patch.id: why for s in open_patches if (why := _unfit_need(s, unfit))}:
        unfit |= fresh
        open_patches = [status for status in open_patches if status.patch.id not in unfit]
    return {s.patch.id: unfit[s.patch.id] for s in statuses if s.patch.id in unfit}


def _unfit_need(status: PatchStatus, unfit: Mapping[str, str]) -> str:
    """Return why a patch that this one needs does not fit, empty if all fit."""
    for needed in status.patch.requires:
        if needed in unfit:
            return f"it requires {needed}, which does not fit"
    return ""
