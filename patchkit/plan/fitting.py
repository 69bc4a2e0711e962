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
_WITHOUT = "applied without "


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


def lacking(statuses: Sequence[PatchStatus]) -> dict[str, list[str]]:
    """Return the applied patches of a tree without some that they require, each with these.

    Git leaves that where it picks a patch alone, or reverts one that another requires.
    """
    states = {status.patch.id: status.state for status in statuses}
    absent = {name for name, state in states.items() if state in {State.PENDING, State.CONFLICT}}
    needs = {status.patch.id: [*filter(absent.__contains__, status.patch.requires)] for status in statuses}
    return {name: needed for name, needed in needs.items() if needed and states[name] is State.APPLIED}


def with_lacking(statuses: Sequence[PatchStatus]) -> tuple[PatchStatus, ...]:
    """Return a tree's statuses, with the reason for each of ``lacking``."""
    reasons = {
        name: f"{_WITHOUT}{', '.join(needed)}, which it requires: patchkit apply {' '.join(needed)}, or patchkit "
        f"revert {name}"
        for name, needed in lacking(statuses).items()
    }
    return tuple(replace(status, reason=reasons.get(status.patch.id, status.reason)) for status in statuses)


def is_lacking(status: PatchStatus) -> bool:
    """Return whether a status is that of ``with_lacking`` for a patch without one that it requires."""
    return status.state is State.APPLIED and status.reason.startswith(_WITHOUT)


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
