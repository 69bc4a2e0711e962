"""A verify's tree mask is as large as its target reads: over the whole context, or over the draft tokens alone."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from . import flash_attention, sparse_attention
from .overlap import verify_side
from .switches import disabled

_Mode = TypeVar("_Mode", bound=Enum)
_Buffer = TypeVar("_Buffer")

# Backends whose verify is causal over a chain of draft tokens, or takes the tree from elsewhere: none takes the mask.
_UNREAD = {"FlashMLABackend", "TRTLLMHAAttnBackend", "TRTLLMMLABackend"}


# Of what beside them attends linearly: it takes the tree's links, and no mask.
_LINEAR = {"GDNAttnBackend", "KDAAttnBackend", "LightningAttentionBackend", "Mamba2AttnBackend"}


def reads_full_mask(backend: object) -> bool:
    """Tell whether the target's backend reads a tree mask over the whole context, or may.

    A hybrid backend verifies with one of its sides, and one that wraps full and linear attention with the former. A
    subclass and another wrapper, such as two-batch overlap's, which splits the mask, read it for all that is known.
    """
    side = verify_side(backend)
    if side is not backend:
        return type(backend).__name__ != "HybridAttnBackend" or reads_full_mask(side)
    full = getattr(backend, "full_attn_backend", None)
    if full is not None and type(backend).__name__ == "HybridLinearAttnBackend":
        linear = getattr(backend, "linear_attn_backend", None)
        return type(linear).__name__ not in _LINEAR or reads_full_mask(full)
    if flash_attention.is_flash_attention(backend):
        return backend.topk > 1
    return type(backend).__name__ not in _UNREAD and not sparse_attention.does_without_mirror(backend)


def has_full_mask(backend: object) -> bool:
    """Tell whether a verify of ``backend`` with one branch has a full mask: it is read, or 32886 is off."""
    return disabled("32886") or reads_full_mask(backend)


def verify_mask(
    backend: object, mode: _Mode, buffer: _Buffer, top_k: int = 1
) -> tuple[_Mode, _Buffer | None]:
    """Return how to build a verify's tree mask and the buffer for it, if any.

    ``mode`` is a member of upstream's ``TreeMaskMode``. A full mask that nobody reads becomes one over the draft
    tokens, [requests, tokens, tokens], which is made anew: filling the large buffer is what it saves. A tree with
    branches, of a ``top_k`` above 1, keeps its mask on every backend: a chain is what all of them attend to without
    one. Source: pull requests 32886, 32920 and 33127.
    """
    if mode.name != "FULL_MASK" or top_k > 1 or has_full_mask(backend):
        return mode, buffer
    return type(mode)["QLEN_ONLY"], None
