"""A server told to overlap the plan stream starts only with a target backend that has its hook."""

from __future__ import annotations

from typing import Any

HOOK = "update_verify_buffers_to_fill_after_draft"


def has_overlap_hook(backend: Any) -> bool:
    """Tell whether a backend's class defines the hook or inherits it from other than the abstract base."""
    for owner in type(backend).__mro__:
        if HOOK in vars(owner):
            return owner.__name__ != "AttentionBackend"
    return False


def require_overlap_hook(plan_stream: Any, backend: Any) -> None:
    """Raise RuntimeError where the plan stream is on and ``backend`` has no hook: no default is right for all."""
    if plan_stream and not has_overlap_hook(backend):
        raise RuntimeError(
            f"{type(backend).__name__} cannot verify with the overlap plan stream: it has no {HOOK}; "
            "unset SGLANG_ENABLE_OVERLAP_PLAN_STREAM or choose another attention backend."
        )
