"""Check at start-up that the target's backend has the hook for the overlap plan stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing import TypeGuard

    from .shapes import Hybrid, Worker

_Backend = TypeVar("_Backend")

HOOK = "update_verify_buffers_to_fill_after_draft"
# The attributes of the backends to which a wrapper forwards the hook; the last two may have other meanings.
_DELEGATES = ("full_attn_backend", "linear_attn_backend")
_POSSIBLE_DELEGATES = ("dense", "backend")
_MAX_BACKENDS = 64


def _is_hybrid(backend: _Backend) -> TypeGuard[Hybrid[_Backend]]:
    return any(owner.__name__ == "HybridAttnBackend" for owner in type(backend).__mro__)


def verify_side(backend: _Backend) -> _Backend:
    """Return the backend that verifies: a hybrid's side for a target verify, else the backend itself."""
    if not _is_hybrid(backend):
        return backend
    # In later trees server_args keeps the value as typed, and the hybrid has the resolved one.
    in_decode = getattr(backend, "spec_attn_is_decode", None)
    if in_decode is None:
        in_decode = backend.model_runner.server_args.speculative_attention_mode == "decode"
    return backend.decode_backend if in_decode else backend.prefill_backend


def _without_hook(backend: object) -> object | None:
    """Return the backend that lacks the hook, ``backend`` or one that it forwards the call to; None if all have it.

    The abstract base's hook does not count. Wrappers may contain themselves or create what they wrap on each
    access: each object is checked once, and at most ``_MAX_BACKENDS`` of them.
    """
    pending = [backend]
    seen: list[object] = []
    while pending and len(seen) < _MAX_BACKENDS:
        each = pending.pop(0)
        if any(each is other for other in seen):
            continue
        seen.append(each)
        owner = _definer(each)
        if owner is None or owner.__name__ == "AttentionBackend":
            return each
        pending[:0] = _handed_to(each)
    return None


def _handed_to(backend: object) -> list[object]:
    side = verify_side(backend)
    if side is not backend:
        return [side]
    named = [getattr(backend, name, None) for name in _DELEGATES]
    named += [
        each for name in _POSSIBLE_DELEGATES if _definer(each := getattr(backend, name, None)) is not None
    ]
    return [each for each in named if each is not None]


def _definer(backend: object) -> type | None:
    return next((owner for owner in type(backend).__mro__ if HOOK in vars(owner)), None)


def has_overlap_hook(backend: object) -> bool:
    """Return whether a backend and all that it forwards the call to have the hook."""
    return _without_hook(backend) is None


def require_overlap_hook(plan_stream: object, backend: object) -> None:
    """Raise RuntimeError if the plan stream is on and ``backend`` has no hook; no default is right for all backends."""
    hookless = _without_hook(backend) if plan_stream else None
    if hookless is not None:
        raise RuntimeError(
            f"{type(verify_side(hookless)).__name__} cannot verify with the overlap plan stream without {HOOK}: "
            "unset SGLANG_ENABLE_OVERLAP_PLAN_STREAM or choose another attention backend."
        )


def require_overlap_hook_to_verify(draft: object, target: Worker, server_args: Any) -> None:
    """Raise as ``require_overlap_hook`` if the server will verify; ``draft`` is its speculative worker, or None.

    ``target`` is not checked without a plan stream, or on a disaggregated prefill server, which does not verify.
    """
    plan_stream = getattr(draft, "plan_stream", None)
    if plan_stream is not None and server_args.disaggregation_mode != "prefill":
        require_overlap_hook(plan_stream, target.model_runner.attn_backend)
