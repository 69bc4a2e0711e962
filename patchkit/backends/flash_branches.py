"""Plan FlashAttention-3's graphs with several branches on the device: prefix and branches are attended to separately.

The prefix is one ``fill``; the branches are a few torch operations on as many columns as there are draft tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .metadata import Batch, Lengths, PageTables
from .paged import fill

if TYPE_CHECKING:
    from .shapes import FlashAttentionBranches, Metadata, TreeInput, WindowMetadata


def plan_draft_branches(
    backend: FlashAttentionBranches,
    bs: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
) -> tuple[WindowMetadata, Metadata]:
    """Plan a draft step's graph of ``bs`` requests, and return the metadata of prefix and branches.

    ``seq_lens`` and ``req_pool_indices`` are as in ``fill_flash_attention``; ``out_cache_loc`` (integer, on the
    device) has the slots that each branch writes, step after step. A page that the prefix fills only in part is
    counted to the branches, each of which has a copy of it.
    """
    prefix, own = backend.draft_decode_metadata_topk_normal[bs], backend.draft_decode_metadata_topk_expand[bs]
    drafted, page_size = backend.speculative_step_id + 1, backend.page_size
    slots = out_cache_loc.view(-1, backend.speculative_num_steps)[:, :drafted]
    table = own.page_table[: slots.shape[0]]
    lens = seq_lens[:bs]
    if page_size == 1:
        table[:, :drafted].copy_(slots)
    else:
        behind = lens % page_size
        lens = lens - behind
        own.cache_seqlens_int32.copy_((behind + drafted).repeat_interleave(backend.topk))
        pages = slots // page_size
        # A page is listed once, however many of the branch's tokens are on it.
        turns = pages.diff(dim=1, prepend=pages[:, :1]) != 0
        table.scatter_(1, turns.cumsum(1), pages.to(table.dtype))
    _fill_prefix(backend, prefix, lens, req_pool_indices)
    return prefix, own


def plan_verify_branches(
    backend: FlashAttentionBranches,
    bs: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    tree: TreeInput,
) -> tuple[WindowMetadata, Metadata]:
    """Plan a verify's graph of ``bs`` requests, and return the metadata of prefix and tree.

    Each token's row of the page table starts with the slots of the draft tokens that it sees.
    """
    prefix, own = (
        backend.target_verify_metadata_topk_normal[bs],
        backend.target_verify_metadata_topk_expand[bs],
    )
    lens, rows, tokens = seq_lens[:bs], req_pool_indices[:bs], backend.speculative_num_draft_tokens
    _fill_prefix(backend, prefix, lens, rows)
    column = torch.arange(tokens, device=lens.device)
    seen = _seen(tree, lens.long(), column)
    sums = seen.cumsum(1)
    count = sums[:, -1:]
    place = torch.where(seen, sums - 1, count + column - sums)
    slots = backend.req_to_token[rows.long()[:, None], lens.long()[:, None] + column]
    own.page_table.scatter_(1, place, slots.repeat_interleave(tokens, dim=0).to(own.page_table.dtype))
    own.cache_seqlens_int32.copy_(count[:, 0])
    own.cu_seqlens_k[1:].copy_(count[:, 0].cumsum(0))
    return prefix, own


def _seen(tree: TreeInput, lens: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    """Return which draft tokens each token of a graph sees, [requests x tokens, tokens].

    The mask's size shows whether it is over the draft tokens or the whole context. Padding uses the mask's first
    element.
    """
    mask, live, tokens = tree.custom_mask, tree.positions.numel(), column.shape[0]
    token = torch.arange(lens.shape[0] * tokens, device=lens.device)
    if mask.numel() == live * tokens:
        starts = token * tokens
    else:
        width = lens + tokens
        before = (width * tokens).cumsum(0) - width * tokens
        starts = ((before + lens)[:, None] + width[:, None] * column).flatten()
    found: torch.Tensor = mask[torch.where((token < live)[:, None], starts[:, None] + column, 0)]
    return found


def _fill_prefix(
    backend: FlashAttentionBranches, prefix: WindowMetadata, lens: torch.Tensor, rows: torch.Tensor
) -> None:
    """Write the metadata of the prefix, which all branches attend to."""
    fill(
        Batch(lens, rows, lens.shape[0], 0),
        Lengths(keys=prefix.cache_seqlens_int32, key_offsets=prefix.cu_seqlens_k),
        PageTables(backend.req_to_token, backend.page_size, prefix.page_table),
    )
