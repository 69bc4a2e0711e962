"""Name the fixes that a tree lacks and that a server with certain options needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from patchkit.doctor.models import unless_usual
from patchkit.patchset import condition
from patchkit.plan.status import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from patchkit.doctor.outcome import Outcomes, ServerOutcome
    from patchkit.plan.status import PatchStatus

DERIVED = {
    "prefill_backend": "prefill",
    "decode_backend": "decode",
    "draft_backend": "draft steps",
    "draft_extend_backend": "draft extend",
}
"""The names of attention backends in a condition, with the roles that they have in an outcome."""
SPEC_V2 = "spec_v2"
"""True in a condition for speculative decoding by a v2 worker, with the overlap schedule or without it."""
_LACKING = frozenset({State.PENDING, State.PARTIAL, State.CONFLICT})


class Fix(msgspec.Struct, frozen=True):
    """A fix that the tree lacks, and what goes wrong without it.

    ``concerns`` names the affected requests or models if no option determines them, ``fixed_in`` upstream's first
    release with the fix, ``where`` the models whose server needs it; each may be empty. ``conflict`` is True if the
    tree has other code at its site.
    """

    patch: str
    symptom: str
    concerns: str = ""
    fixed_in: str = ""
    conflict: bool = False
    where: str = ""


def lacking(statuses: Sequence[PatchStatus]) -> list[PatchStatus]:
    """Return the fixes that a tree lacks, whatever the server's options are."""
    return [status for status in statuses if status.patch.affects is not None and status.state in _LACKING]


def needed(outcomes: Outcomes, statuses: Sequence[PatchStatus]) -> Iterator[Fix]:
    """Yield the fixes that the tree lacks and that a server needs or may need with some kind of model."""
    values = [(model, _value_of(outcome)) for model, outcome in outcomes]
    for status in lacking(statuses):
        affects = status.patch.affects
        assert affects is not None
        models = [
            model for model, value_of in values if not affects.when or condition.holds(affects.when, value_of)
        ]
        if models:
            is_conflict = status.state is State.CONFLICT
            where = unless_usual(models) if len(models) < len(values) else ""
            yield Fix(
                status.patch.id, affects.symptom, affects.concerns, affects.fixed_in, is_conflict, where
            )


def _value_of(outcome: ServerOutcome) -> Callable[[str], Any]:
    """Return what yields the value of a name in a condition; one that the tree lacks is None."""
    roles = {one.role: one.name for one in outcome.roles}
    derived: dict[str, Any] = {name: roles[role] for name, role in DERIVED.items() if role in roles}
    # Later releases have no other worker for most algorithms, also without the overlap schedule.
    has_v2 = outcome.overlap or outcome.worker.endswith("V2")
    derived[SPEC_V2] = has_v2 and bool(outcome.setting("speculative_algorithm"))
    return lambda name: derived[name] if name in derived else outcome.setting(name)
