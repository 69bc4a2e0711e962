"""What a decode server's draft state of a new request is, and which decode servers start."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from sglang.srt.arg_groups import speculative_hook
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm


def made(algorithm: str) -> bool:
    """Return whether anything makes the draft state of a request that the prefill server sent."""
    build = SpeculativeAlgorithm.from_string(algorithm).build_disagg_draft_input
    return build(*(None for _ in inspect.signature(build).parameters)) is not None


def refused(algorithm: str, mode: str) -> str:
    """Return the error with which the tree's own check of the settings ends, if it gets to the last one tested."""
    settings: Any = SimpleNamespace(
        device="cuda",
        disaggregation_mode=mode,
        enable_dp_attention=False,
        pp_size=1,
        speculative_draft_model_path=None,
        get_model_config=lambda: SimpleNamespace(hf_config=SimpleNamespace()),
    )
    # A view, in later trees, is what the settings are once they are settled.
    for name in ("resolved_view", "resolving_view"):
        if hasattr(speculative_hook, name):
            setattr(speculative_hook, name, lambda each: each)
    overrides = getattr(__import__("sglang.srt.arg_groups", fromlist=["x"]), "overrides", None)
    if overrides is not None:
        overrides.resolved_view = lambda each: each
    try:
        getattr(speculative_hook, f"_handle_{algorithm.lower()}")(settings)
    except ValueError as error:
        return str(error)
    return ""
