"""``PATCHKIT_DISABLE`` turns upgrades off when a server starts; a name that it cannot turn off is an error there."""

from __future__ import annotations

import functools
import os

VARIABLE = "PATCHKIT_DISABLE"

SWITCHES = frozenset(
    {
        "26128",
        "26397",
        "26424",
        "26824",
        "27689",
        "28465",
        "28579",
        "28633",
        "28782",
        "28854",
        "29343",
        "29413",
        "30947",
        "31364",
        "32886",
        "pk-attention-views",
        "pk-fa3-draft-extend-graph",
        "pk-fa3-verify-schedule",
        "pk-hybrid-opt-out",
        "pk-linear-launches",
        "pk-small-launches",
        "pk-step-inputs",
        "pk-step-relay",
        "pk-triton-replay",
        "pk-trtllm-mha-opt-out",
        "pk-verify-outputs",
    }
)
"""The patches that ask whether they are off; another one's data says why it does not."""


@functools.cache
def _named(value: str) -> frozenset[str]:
    """Return the patches that ``value`` (ids, separated by commas) names; ValueError for one without a switch."""
    named = frozenset(filter(None, map(str.strip, value.split(","))))
    unknown = sorted(named - SWITCHES)
    if unknown:
        raise ValueError(
            f"{VARIABLE} names {', '.join(unknown)}, which cannot be turned off at run time (what can is "
            f"{', '.join(sorted(SWITCHES))}): unset it there, and take another patch out with `patchkit revert`."
        )
    return named


def switched_off() -> frozenset[str]:
    """Return the patches that are off in this process; ValueError if the variable names one without a switch."""
    # It is asked many times a step, and a lookup that finds nothing takes several times as long as this.
    return _named(os.environ[VARIABLE]) if VARIABLE in os.environ else frozenset()


def disabled(patch: str) -> bool:
    """Tell whether ``patch``, one of `SWITCHES`, is off in this process."""
    return patch in switched_off()
