"""Build a verify's tree mask only as large as its target reads it: over the context, or over the draft tokens."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from . import flash_attention, sparse_attention
from .lengths import tree_mask_total
from .overlap import verify_side
from .switches import disabled
from .wrappers import splits_batches, verifier

if TYPE_CHECKING:
    import torch

    from .shapes import VerifyBackend, VerifyBatch

_Mode = TypeVar("_Mode", bound=Enum)
_Buffer = TypeVar("_Buffer")

# Upstream's backend of two sides, which only forwards a verify.
_HYBRID = "HybridAttnBackend"
# Backends that do not read the mask: their verify is causal over a chain, or has other inputs for the tree.
_UNREAD = {"FlashMLABackend", "TRTLLMHAAttnBackend", "TRTLLMMLABackend"}


# Linear attention beside them, which reads the tree's links, and no mask.
_LINEAR = {"GDNAttnBackend", "KDAAttnBackend", "LightningAttentionBackend", "Mamba2AttnBackend"}


def _reader(backend: object) -> object | None:
    """Return which backend reads a verify's mask, if one does, None if that is not known.

    A hybrid backend verifies with one of its sides, one that wraps full and linear attention with the full one.
    """
    side = verify_side(backend)
    if side is not backend:
        # A fork's subclass may read the mask itself.
        return _reader(side) if type(backend).__name__ == _HYBRID else None
    full = getattr(backend, "full_attn_backend", None)
    if full is not None and type(backend).__name__ == "HybridLinearAttnBackend":
        linear = getattr(backend, "linear_attn_backend", None)
        return _reader(full) if type(linear).__name__ in _LINEAR else None
    return backend


def reads_full_mask(backend: object) -> bool:
    """Return whether the target's backend reads a tree mask over the whole context, or may.

    Subclasses and other wrappers, such as two-batch overlap's, which splits the mask, may read it.
    """
    reader = _reader(backend)
    if flash_attention.is_flash_attention(reader):
        return reader.topk > 1
    unread = type(reader).__name__ in _UNREAD
    return reader is None or not (unread or sparse_attention.does_without_mirror(reader))


def has_full_mask(backend: object) -> bool:
    """Return whether a verify of ``backend`` with one branch has a full mask: it is read, or 32886 is disabled."""
    return disabled("32886") or reads_full_mask(backend)


def verify_mask(
    backend: object, mode: _Mode, buffer: _Buffer, top_k: int = 1
) -> tuple[_Mode, _Buffer | None]:
    """Return how to build a verify's tree mask and the buffer for it, if any.

    ``mode`` is a member of upstream's ``TreeMaskMode``. A full mask that is not read is replaced by a new one over
    the draft tokens, [requests, tokens, tokens], which saves filling the large buffer. A tree with branches
    (``top_k`` above 1) keeps its mask: backends do without one only for a chain. FlashAttention-3 in a tree with
    pk-fa3-branches reads only the part over the draft tokens, and gets only that. Source: pull requests 32886, 32920
    and 33127.
    """
    if top_k > 1:
        small = not disabled("32886") and flash_attention.reads_tree_alone(_reader(backend))
    else:
        small = not has_full_mask(backend)
    if mode.name != "FULL_MASK" or not small:
        return mode, buffer
    return type(mode)["QLEN_ONLY"], None


def tree_rows(mask: torch.Tensor, indices: torch.Tensor, tokens: int) -> torch.Tensor:
    """Return which draft tokens each token of a batch sees, [requests x tokens, tokens].

    ``indices`` (integer) are their positions in a mask over the whole context; a mask of their size is over the
    draft tokens. Source: pk-fa3-branches.
    """
    return (mask if mask.numel() == indices.numel() else mask[indices]).view(-1, tokens)


def preallocated_mask(
    mask: torch.Tensor | None, attn_backend: VerifyBackend, batch: VerifyBatch
) -> torch.Tensor | None:
    """Return what a verify's draft fills of the preallocated mask; None if there is none with room for the batch.

    ``mask`` is the one of ``attn_backend``. A wrapper without one uses that of the backend that verifies, except
    for two-batch overlap, which splits its mask by the lengths. The result is the mask's part for the batch's total
    length or, without the mirror, for the most that its requests can have, and for the padding of a graph. If the
    graph's mask may be too short for all requests at their limit, a longer one is returned, of which the graph's
    buffer takes the first part; a batch above the largest graph gets a new mask. Only sizes are compared, without
    waiting for the device. Source: 26128/guards.
    """
    owner = verifier(attn_backend)
    shared = owner is not attn_backend and not splits_batches(attn_backend)
    if mask is None and shared and has_full_mask(attn_backend):
        mask = owner.get_verify_buffers_to_fill_after_draft()[0]
    count = batch.seq_lens.shape[0]
    if mask is None or count > getattr(owner, "verify_mask_requests", count):
        return None
    tokens, context = _draft_tokens(owner), getattr(owner, "max_context_len", None)
    # The size that a fork's own backend needs is unknown; a mask too small for one request at the context's end is
    # over the draft tokens.
    if not tokens or context is None or mask.numel() < tokens * context:
        return mask
    needed = tokens * (tree_mask_total(batch, attn_backend) + count * tokens)
    graph = mask.numel() // (tokens * context)
    if needed <= mask.numel():
        # Data-parallel attention pads an eager verify to the largest rank's batch, which may be above the graph.
        if getattr(batch, "global_num_tokens", None) is not None:
            return mask
        # If a padding request saw nothing, its output would be NaN.
        padding = max(graph - count, 0) * tokens * (_padding_length(attn_backend, owner) + tokens)
        return mask[: needed + padding]
    return mask.new_ones(needed)[: mask.numel()] if count <= graph else None


def _padding_length(*backends: object) -> int:
    """Return the length of a padding request, as the first backend has it that says so."""
    asked = (getattr(backend, "get_cuda_graph_seq_len_fill_value", None) for backend in backends)
    return next((int(ask()) for ask in asked if ask is not None), 1)


def _draft_tokens(backend: object) -> int:
    """Return how many tokens a request has in a verify, 0 if it is unknown."""
    names = ("num_draft_tokens", "speculative_num_draft_tokens")
    return next((int(found) for name in names if (found := getattr(backend, name, None))), 0)
