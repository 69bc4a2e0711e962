"""Plan FlashAttention-3's graphs with several branches on the device: prefix and branches are attended to separately.

The prefix is one ``fill``; on a GPU a verify's branches are one launch and a prefix sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .metadata import Batch, Lengths, PageTables, Trees
from .paged import fill

if TYPE_CHECKING:
    from .shapes import FlashAttentionBranches, Metadata, TreeInput, WindowMetadata


def plan_draft_prefix(
    backend: FlashAttentionBranches, bs: int, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor
) -> None:
    """Plan what all steps' graphs of ``bs`` requests attend to in front of the branches, with pages of one token."""
    _fill_prefix(backend, backend.draft_decode_metadata_topk_normal[bs], seq_lens[:bs], req_pool_indices)


def plan_draft_branches(
    backend: FlashAttentionBranches,
    bs: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    *,
    with_prefix: bool = True,
) -> tuple[WindowMetadata, Metadata]:
    """Plan a draft step's graph of ``bs`` requests, and return the metadata of prefix and branches.

    ``seq_lens`` and ``req_pool_indices`` are as in ``fill_flash_attention``; ``out_cache_loc`` (integer, on the
    device) has the slots that each branch writes, step after step. A page that the prefix fills only in part is
    counted to the branches, each of which has a copy of it. Without ``with_prefix`` the prefix is planned already, and
    the last step's page table, in which those of the others lie, is written with that step.
    """
    prefix, own = backend.draft_decode_metadata_topk_normal[bs], backend.draft_decode_metadata_topk_expand[bs]
    drafted, page_size = backend.speculative_step_id + 1, backend.page_size
    slots = out_cache_loc.view(-1, backend.speculative_num_steps)[:, :drafted]
    table = own.page_table[: slots.shape[0]]
    lens = seq_lens[:bs]
    if page_size == 1:
        if with_prefix or drafted == backend.speculative_num_steps - 1:
            table[:, :drafted].copy_(slots)
    else:
        behind = lens % page_size
        lens = lens - behind
        own.cache_seqlens_int32.copy_((behind + drafted).repeat_interleave(backend.topk))
        pages = slots // page_size
        # A page is listed once, however many of the branch's tokens are on it.
        turns = pages.diff(dim=1, prepend=pages[:, :1]) != 0
        table.scatter_(1, turns.cumsum(1), pages.to(table.dtype))
    if with_prefix:
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
    list_seen(
        Batch(lens, rows, bs, 0),
        Trees(tree.custom_mask, tree.positions.numel(), tokens, own.cache_seqlens_int32),
        PageTables(backend.req_to_token, 1, own.page_table),
    )
    torch.cumsum(own.cache_seqlens_int32, 0, dtype=torch.int32, out=own.cu_seqlens_k[1:])
    return prefix, own


def list_seen(batch: Batch, trees: Trees, tables: PageTables) -> None:
    """Write ``trees.counts`` and each draft token's row of ``tables.pages``: the slots of all draft tokens of its tree.

    Those that it sees are first. On a GPU it is one launch, without blocking the host.
    """
    if batch.seq_lens.is_cuda:
        from .tree_kernel import list_seen_by_kernel

        list_seen_by_kernel(batch, trees, tables)
    else:
        list_seen_by_torch(batch, trees, tables)


def list_seen_by_torch(batch: Batch, trees: Trees, tables: PageTables) -> None:
    """Implement ``list_seen`` by torch operations."""
    lens, rows = batch.seq_lens.long(), batch.req_pool_indices.long()
    column = torch.arange(trees.tokens, device=lens.device)
    seen = _seen(trees, lens, column)
    sums = seen.cumsum(1)
    count = sums[:, -1:]
    place = torch.where(seen, sums - 1, count + column - sums)
    slots = tables.req_to_token[rows[:, None], lens[:, None] + column]
    tables.pages.scatter_(1, place, slots.repeat_interleave(trees.tokens, dim=0).to(tables.pages.dtype))
    trees.counts.copy_(count[:, 0])


def _seen(trees: Trees, lens: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    """Return which draft tokens each token of a graph sees, [requests x tokens, tokens].

    The mask's size shows whether it is over the draft tokens or the whole context.
    """
    mask, live, tokens, _ = trees
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
