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
# What has lengths or a page table that the host sizes, whatever the tree.
_SIZED_BY_HOST = ("is_encoder_decoder", "is_prefill_aware_swa")
_WHOLE = "29343"
_VERSION = 3


def is_flash_attention(backend: object) -> TypeGuard[FlashAttention]:
    """Tell whether a backend is FlashAttention's own, of whatever version and model, and not a subclass."""
    return type(backend).__name__ == _CLASS


def is_plain(backend: object) -> bool:
    """Tell whether a backend is version 3 on multi-head attention over one pool, with a top-k of at most 1."""
    return (
        is_flash_attention(backend)
        and getattr(backend, "fa_impl_ver", None) == _VERSION
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


def flash_attention_whole_needs_mirror(backend: object) -> bool:
    """Tell the same in a tree that has 29343 as well.

    There multi-latent, sliding-window and local attention, the version 4 kernels and a top-k above 1 go without it too.
    Cross attention, a window that knows its prefill, version 4 on multi-latent attention, which no kernel has, a
    top-k above 1 with windows, chunks or version 4, and a subclass keep it. Source: pull requests 29343 and 29589.
    """
    if disabled(_WHOLE):
        return flash_attention_needs_mirror(backend)
    return disabled("31364") or not _is_filled(backend)


def _is_filled(backend: object) -> bool:
    """Tell whether ``backends.flash_attention`` fills the metadata of a backend's graphs."""
    return (
        is_flash_attention(backend)
        and getattr(backend, "fa_impl_ver", None) in {3, 4}
        and not (getattr(backend, "fa_impl_ver", None) == 4 and getattr(backend, "use_mla", False))
        and (backend.topk <= 1 or _attends_to_branches(backend))
        and not any(getattr(backend, name, False) for name in _SIZED_BY_HOST)
    )


def _attends_to_branches(backend: object) -> bool:
    """Tell whether a backend's branches are planned by ``backends.flash_branches``, windows of which nothing knows."""
    windows = ("has_swa", "use_sliding_window_kv_pool", "has_local_attention")
    return getattr(backend, "fa_impl_ver", None) == _VERSION and not any(
        getattr(backend, name, False) for name in windows
    )


def reads_tree_alone(backend: object) -> bool:
    """Tell whether a verify of a top-k above 1 reads of its mask only what is over the draft tokens. Source: 29343."""
    return (
        is_flash_attention(backend)
        and backend.topk > 1
        and not disabled(_WHOLE)
        and not getattr(backend, "needs_cpu_seq_lens", True)
    )


def graphs_flash_draft_extend(backend: object) -> bool:
    """Tell whether a v2 draft-extend of this backend may be captured in a graph.

    It may on a plain backend and, where 29343 has it go without the mirror, on every one of version 3 whose keys lie in
    a single pool: where a second pool's keys are written is set for each forward, and a capture would keep it.
    """
    if is_plain(backend):
        return True
    freed = is_flash_attention(backend) and not getattr(backend, "needs_cpu_seq_lens", True)
    single = not getattr(backend, "use_sliding_window_kv_pool", True)
    chain = is_flash_attention(backend) and backend.topk <= 1
    return (
        freed
        and single
        and chain
        and getattr(backend, "fa_impl_ver", None) == _VERSION
        and not disabled(_WHOLE)
    )


def flash_attention_steps_need_mirror(draft: MultiStepDraft) -> bool:
    """Tell whether a step of a multi-step FlashAttention draft reads the host's lengths. Source: 31364."""
    return any(step.needs_cpu_seq_lens for step in draft.attn_backends)
