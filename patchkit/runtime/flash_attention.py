"""Decide for each FlashAttention backend whether it reads the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .switches import disabled

if TYPE_CHECKING:
    from typing import TypeGuard

    from .shapes import FlashAttention, MultiStepDraft

_CLASS = "FlashAttentionBackend"
_LATENT = "use_mla"
# Features with more metadata than lengths and a page table.
_UNSUPPORTED = (
    "use_sliding_window_kv_pool",
    "has_swa",
    "has_local_attention",
    "is_encoder_decoder",
    "is_prefill_aware_swa",
)
# Features whose lengths or page table are sized on the host in every tree.
_SIZED_BY_HOST = ("is_encoder_decoder", "is_prefill_aware_swa")
_WHOLE = "29343"
_BRANCHES = "pk-fa3-branches"
_VERSION = 3


def is_flash_attention(backend: object) -> TypeGuard[FlashAttention]:
    """Return whether a backend is the tree's FlashAttention class, of any version and model, not a subclass."""
    return type(backend).__name__ == _CLASS


def is_plain(backend: object, *, branches: bool = False) -> bool:
    """Return whether a backend is version 3, with one KV pool, and a top-k of at most 1.

    With ``branches`` the top-k of one on multi-head attention may be any.
    """
    return (
        is_flash_attention(backend)
        and getattr(backend, "fa_impl_ver", None) == _VERSION
        and (backend.topk <= 1 or (branches and not getattr(backend, _LATENT, False)))
        and not any(getattr(backend, name, False) for name in _UNSUPPORTED)
    )


def is_multi_head(backend: object) -> bool:
    """Return whether a plain backend is on multi-head attention, not multi-latent."""
    return is_plain(backend) and not getattr(backend, _LATENT, False)


def flash_attention_needs_mirror(backend: object) -> bool:
    """Return whether this FlashAttention backend reads the mirror.

    It does not if all of its metadata is known to come from lengths on the device: the version 3 kernels with one KV
    pool and a top-k of at most 1. Sliding-window, local and cross attention, the version 4 kernels, a larger top-k and
    subclasses need the mirror. Source: pull requests 29343, 29589 and 31364.
    """
    return disabled("31364") or not is_plain(backend)


def flash_attention_branches_need_mirror(backend: object) -> bool:
    """Return the same in a tree with pk-fa3-branches, where multi-head attention needs none with a larger top-k either.

    Source: pull requests 29343 and 31364.
    """
    if disabled(_BRANCHES):
        return flash_attention_needs_mirror(backend)
    return disabled("31364") or not is_plain(backend, branches=True)


def flash_attention_whole_needs_mirror(backend: object) -> bool:
    """Return the same in a tree with 29343.

    There sliding-window and local attention, the version 4 kernels and a top-k above 1 on MLA do not need the mirror
    either. Cross attention, a prefill-aware window, version 4 on MLA, for which there is no kernel, a top-k above 1
    with windows, chunks or version 4, and subclasses do. Source: pull requests 29343 and 29589.
    """
    if disabled(_WHOLE):
        return flash_attention_branches_need_mirror(backend)
    return disabled("31364") or not _is_filled(backend)


def _is_filled(backend: object) -> bool:
    """Return whether ``backends.flash_attention`` fills the metadata of a backend's graphs."""
    return (
        is_flash_attention(backend)
        and getattr(backend, "fa_impl_ver", None) in {3, 4}
        and not (getattr(backend, "fa_impl_ver", None) == 4 and getattr(backend, _LATENT, False))
        and (backend.topk <= 1 or _attends_to_branches(backend))
        and not any(getattr(backend, name, False) for name in _SIZED_BY_HOST)
    )


def _attends_to_branches(backend: object) -> bool:
    """Return whether ``backends.flash_branches`` plans a backend's branches: version 3, without windows."""
    windows = ("has_swa", "use_sliding_window_kv_pool", "has_local_attention")
    return (
        getattr(backend, "fa_impl_ver", None) == _VERSION
        and not disabled(_BRANCHES)
        and not any(getattr(backend, name, False) for name in windows)
    )


def reads_tree_alone(backend: object) -> bool:
    """Return whether a verify with a top-k above 1 reads only the mask's part over the draft tokens.

    That is where the patches plan it: upstream's own opt-out, an attribute, reads the whole mask. Source:
    pk-fa3-branches.
    """
    return (
        is_flash_attention(backend)
        and backend.topk > 1
        and isinstance(getattr(type(backend), "needs_cpu_seq_lens", None), property)
        and not getattr(backend, "needs_cpu_seq_lens", True)
    )


def graphs_flash_draft_extend(backend: object, *, branches: bool = False) -> bool:
    """Return whether a v2 draft-extend of this backend can be captured in a graph.

    It can on a plain backend and, with 29343, on every other version 3 backend that does without the mirror and has
    a single KV pool: where the keys of a second pool are written is set for each forward, and a capture would keep
    the first one. A top-k above 1 needs a plain backend without the mirror, and ``branches``, a graph with room for a
    tree's tokens.
    """
    if is_plain(backend):
        return True
    freed = is_flash_attention(backend) and not getattr(backend, "needs_cpu_seq_lens", True)
    if is_plain(backend, branches=branches):
        return freed
    single = not getattr(backend, "use_sliding_window_kv_pool", True)
    return (
        freed
        and single
        and is_flash_attention(backend)
        and backend.topk <= 1
        and getattr(backend, "fa_impl_ver", None) == _VERSION
        and not disabled(_WHOLE)
    )


def flash_attention_steps_need_mirror(draft: MultiStepDraft) -> bool:
    """Return whether a step of a multi-step FlashAttention draft reads the mirror. Source: 31364."""
    return any(step.needs_cpu_seq_lens for step in draft.attn_backends)
