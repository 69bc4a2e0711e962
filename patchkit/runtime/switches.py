"""``PATCHKIT_DISABLE`` disables patches when a server starts; any other name in it is an error."""

from __future__ import annotations

import functools
import os

VARIABLE = "PATCHKIT_DISABLE"

SWITCHES = frozenset(
    {
        "26128",
        "26397",
        "26424",
        "26424/steps",
        "26824",
        "27689",
        "28465",
        "28579",
        "28633",
        "28782",
        "28782/host-plan",
        "29343",
        "29413",
        "31090",
        "31364",
        "32886",
        "35546",
        "pk-accepted-paths",
        "pk-accepted-tokens",
        "pk-attention-views",
        "pk-draft-graph",
        "pk-fa3-branches",
        "pk-fa3-draft-extend-graph",
        "pk-fa3-verify-schedule",
        "pk-flashinfer-lengths",
        "pk-flashinfer-lengths/chains",
        "pk-head-graph",
        "pk-hybrid-opt-out",
        "pk-linear-launches",
        "pk-planned-tail-graph",
        "pk-small-launches",
        "pk-step-inputs",
        "pk-step-relay",
        "pk-tail-graph",
        "pk-tree-extend-graph",
        "pk-triton-replay",
        "pk-trtllm-mha-opt-out",
        "pk-verify-outputs",
    }
)
"""The patches and parts that can be disabled; ``no_switch`` of any other explains why it cannot."""

FORMER = {"28854": "28782/host-plan", "30947": "26424/steps"}
"""The parts that were patches, by their former ids."""

DECIDING = {
    "26128": (),
    "26824": ("TRTLLMMLABackend", "TRTLLMMLAMultiStepDraftBackend"),
    "28579": ("GDNAttnBackend", "HybridLinearAttnBackend", "Mamba2AttnBackend"),
    "29413": (
        "DeepseekSparseAttnBackend",
        "DeepseekSparseAttnMultiStepBackend",
        "NativeSparseAttnBackend",
        "NativeSparseAttnMultiStepBackend",
    ),
    "pk-hybrid-opt-out": ("HybridAttnBackend",),
    "pk-trtllm-mha-opt-out": ("TRTLLMHAAttnBackend", "TRTLLMHAAttnMultiStepDraftBackend"),
}
"""The patches that act by the decision about the mirror, with the classes that run without it; none for any class."""


@functools.cache
def _named(value: str) -> frozenset[str]:
    """Return the patches in ``value``, ids separated by commas. Raise ValueError for one that cannot be disabled."""
    named = frozenset(filter(None, map(str.strip, value.split(","))))
    unknown = sorted(named - SWITCHES)
    if former := [name for name in unknown if name in FORMER]:
        now = ", ".join(FORMER[name] for name in former)
        raise ValueError(f"{VARIABLE} names {', '.join(former)}: write {now}, which it is called now.")
    if unknown:
        raise ValueError(
            f"{VARIABLE} names {', '.join(unknown)}, which cannot be turned off at run time (these can: "
            f"{', '.join(sorted(SWITCHES))}): remove it from the variable, and use `patchkit revert` instead."
        )
    return named


def switched_off() -> frozenset[str]:
    """Return the patches disabled in this process. Raise ValueError if the variable names one without a switch."""
    # Called many times per step: a failed lookup takes several times as long as this test.
    return _named(os.environ[VARIABLE]) if VARIABLE in os.environ else frozenset()


def disabled(patch: str) -> bool:
    """Return whether ``patch``, one of `SWITCHES`, is disabled in this process; a part also with its patch."""
    off = switched_off()
    return bool(off) and not off.isdisjoint((patch, patch.partition("/")[0]))
