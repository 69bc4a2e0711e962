"""A FlashAttention backend says for itself whether it reads the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .switches import disabled

if TYPE_CHECKING:
    from typing import TypeGuard

    from .shapes import FlashAttention, MultiStepDraft

_CLASS = "FlashAttentionBackend"
# What a backend has where its metadata is made in a way that backends.flash_attention does not know.
_UNLIKE = (
    "use_mla",
    "use_sliding_window_kv_pool",
    "has_swa",
    "has_local_attention",
    "is_encoder_decoder",
    "is_prefill_aware_swa",
)


def is_flash_attention(backend: object) -> TypeGuard[FlashAttention]:
    """Tell whether a backend is FlashAttention's own, of whatever version and model, and not a subclass."""
    return type(backend).__name__ == _CLASS


def is_plain(backend: object) -> bool:
    """Tell whether a backend is version 3 on multi-head attention over one pool, with a top-k of at most 1."""
    return (
        is_flash_attention(backend)
        and getattr(backend, "fa_impl_ver", None) == 3
        and backend.topk <= 1
        and not any(getattr(backend, name, False) for name in _UNLIKE)
    )


def flash_attention_needs_mirror(backend: object) -> bool:
    """Tell whether this FlashAttention backend reads the host's lengths.

    It does not where its metadata is known to come from device lengths alone: the version 3 kernels on multi-head
    attention over one pool, with a top-k of at most 1. Multi-latent, sliding-window, local and cross attention, the
    version 4 kernels, a larger top-k and a subclass, whose overrides nobody has looked at, keep the mirror.
    Source: pull requests 29343, 29589 and 31364.
    """
    return disabled("31364") or not is_plain(backend)


def flash_attention_steps_need_mirror(draft: MultiStepDraft) -> bool:
    """Tell whether a step of a multi-step FlashAttention draft reads the host's lengths. Source: 31364."""
    return any(step.needs_cpu_seq_lens for step in draft.attn_backends)
