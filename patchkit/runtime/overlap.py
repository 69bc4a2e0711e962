"""A server told to overlap the plan stream starts only with a target backend that has its hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import TypeGuard

    from .shapes import DisaggregatedArgs, Hybrid, Worker

_Backend = TypeVar("_Backend")

HOOK = "update_verify_buffers_to_fill_after_draft"


def _is_hybrid(backend: _Backend) -> TypeGuard[Hybrid[_Backend]]:
    return any(owner.__name__ == "HybridAttnBackend" for owner in type(backend).__mro__)


def verify_side(backend: _Backend) -> _Backend:
    """Return the backend that verifies: of a hybrid's two sides the one that it gives a target verify, else itself."""
    if not _is_hybrid(backend):
        return backend
    in_decode = backend.model_runner.server_args.speculative_attention_mode == "decode"
    return backend.decode_backend if in_decode else backend.prefill_backend


def has_overlap_hook(backend: object) -> bool:
    """Tell whether a backend's class defines the hook or inherits it from other than the abstract base.

    A hybrid, which hands the call on, has it where its verify side has it too, and what wraps backends of full and of
    linear attention where both have.
    """
    owner = next((owner for owner in type(backend).__mro__ if HOOK in vars(owner)), None)
    if owner is None or owner.__name__ == "AttentionBackend":
        return False
    side = verify_side(backend)
    if side is not backend:
        return has_overlap_hook(side)
    full, linear = (getattr(backend, name, None) for name in ("full_attn_backend", "linear_attn_backend"))
    return full is None or linear is None or (has_overlap_hook(full) and has_overlap_hook(linear))


def require_overlap_hook(plan_stream: object, backend: object) -> None:
    """Raise RuntimeError where the plan stream is on and ``backend`` has no hook: no default is right for all."""
    if plan_stream and not has_overlap_hook(backend):
        raise RuntimeError(
            f"{type(verify_side(backend)).__name__} cannot verify with the overlap plan stream: it has no {HOOK}; "
            "unset SGLANG_ENABLE_OVERLAP_PLAN_STREAM or choose another attention backend."
        )


def require_overlap_hook_to_verify(draft: object, target: Worker, server_args: DisaggregatedArgs) -> None:
    """Raise as ``require_overlap_hook`` does where ``draft``, None or the worker that speculates, will verify.

    ``target`` is not looked at without a plan stream, nor on a disaggregated prefill server, which verifies nothing.
    """
    plan_stream = getattr(draft, "plan_stream", None)
    if plan_stream is not None and server_args.disaggregation_mode != "prefill":
        require_overlap_hook(plan_stream, target.model_runner.attn_backend)
