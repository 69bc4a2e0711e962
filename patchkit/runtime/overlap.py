"""A server told to overlap the plan stream starts only with a target backend that has its hook."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import TypeGuard

    from .shapes import DisaggregatedArgs, Hybrid, Worker

_Backend = TypeVar("_Backend")

HOOK = "update_verify_buffers_to_fill_after_draft"
# What a wrapper that has the hook hands the call on to; by the last names other things go as well.
_HANDED_TO = ("full_attn_backend", "linear_attn_backend")
_PERHAPS_HANDED_TO = ("dense", "backend")
_MOST = 64


def _is_hybrid(backend: _Backend) -> TypeGuard[Hybrid[_Backend]]:
    return any(owner.__name__ == "HybridAttnBackend" for owner in type(backend).__mro__)


def verify_side(backend: _Backend) -> _Backend:
    """Return the backend that verifies: of a hybrid's two sides the one that it gives a target verify, else itself."""
    if not _is_hybrid(backend):
        return backend
    # Later trees keep their arguments as typed, and what became of them elsewhere; their hybrid was told.
    in_decode = getattr(backend, "spec_attn_is_decode", None)
    if in_decode is None:
        in_decode = backend.model_runner.server_args.speculative_attention_mode == "decode"
    return backend.decode_backend if in_decode else backend.prefill_backend


def _without_hook(backend: object) -> object | None:
    """Return who lacks the hook, ``backend`` or what it hands the call on to, None if nobody does.

    A class has it that defines it or inherits it from other than the abstract base. A wrapper may lead back to itself,
    or make what it wraps anew each time: each is asked once, and so many at the most as nobody nests.
    """
    pending = [backend]
    asked: list[object] = []
    while pending and len(asked) < _MOST:
        each = pending.pop(0)
        if any(each is other for other in asked):
            continue
        asked.append(each)
        owner = _definer(each)
        if owner is None or owner.__name__ == "AttentionBackend":
            return each
        pending[:0] = _handed_to(each)
    return None


def _handed_to(backend: object) -> list[object]:
    side = verify_side(backend)
    if side is not backend:
        return [side]
    named = [getattr(backend, name, None) for name in _HANDED_TO]
    named += [
        each for name in _PERHAPS_HANDED_TO if _definer(each := getattr(backend, name, None)) is not None
    ]
    return [each for each in named if each is not None]


def _definer(backend: object) -> type | None:
    return next((owner for owner in type(backend).__mro__ if HOOK in vars(owner)), None)


def has_overlap_hook(backend: object) -> bool:
    """Tell whether a backend has the hook, and so has each that it hands the call on to."""
    return _without_hook(backend) is None


def require_overlap_hook(plan_stream: object, backend: object) -> None:
    """Raise RuntimeError where the plan stream is on and ``backend`` has no hook: no default is right for all."""
    lacking = _without_hook(backend) if plan_stream else None
    if lacking is not None:
        raise RuntimeError(
            f"{type(verify_side(lacking)).__name__} cannot verify with the overlap plan stream: it has no {HOOK}; "
            "unset SGLANG_ENABLE_OVERLAP_PLAN_STREAM or choose another attention backend."
        )


def require_overlap_hook_to_verify(draft: object, target: Worker, server_args: DisaggregatedArgs) -> None:
    """Raise as ``require_overlap_hook`` does where ``draft``, None or the worker that speculates, will verify.

    ``target`` is not looked at without a plan stream, nor on a disaggregated prefill server, which verifies nothing.
    """
    plan_stream = getattr(draft, "plan_stream", None)
    if plan_stream is not None and server_args.disaggregation_mode != "prefill":
        require_overlap_hook(plan_stream, target.model_runner.attn_backend)
