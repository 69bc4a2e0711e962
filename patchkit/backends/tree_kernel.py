"""List the draft tokens that each token of a verify's tree sees, in one launch.

Imported only where Triton is needed: ``flash_branches`` does so for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from .metadata import Batch, PageTables, Trees

_BATCH_BLOCK = 256


# The number of requests differs from step to step, and none may compile a variant.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["requests"], do_not_specialize_on_alignment=["lens", "rows", "tree"]
)
def _list_seen(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    lens,
    rows,
    tree,
    req_to_token,
    page_table,
    key_lens,
    requests,
    slots_per_request,
    pages_per_token,
    WHOLE: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    BATCH_BLOCK: tl.constexpr,  # noqa: N803
):
    request = tl.program_id(0)
    token = tl.arange(0, BLOCK)
    column = token[None, :]
    inside = (token[:, None] < TOKENS) & (column < TOKENS)
    length = tl.load(lens + request).to(tl.int64)
    place = request * TOKENS + token
    if WHOLE:
        before = tl.cast(0, tl.int64)
        for start in range(0, request, BATCH_BLOCK):
            other = start + tl.arange(0, BATCH_BLOCK)
            earlier = tl.load(lens + other, mask=other < request, other=-TOKENS).to(tl.int64)
            before += tl.sum(earlier + TOKENS, 0)
        first = before * TOKENS + length + (length + TOKENS) * token
    else:
        first = place.to(tl.int64) * TOKENS
    # Padding reads the mask's first element.
    at = tl.where(request < requests, first[:, None] + column, 0)
    seen = (tl.load(tree + at, mask=inside, other=0) != 0).to(tl.int32)
    sums = tl.cumsum(seen, 1)
    count = tl.sum(seen, 1)
    to = tl.where(seen != 0, sums - 1, count[:, None] + column - sums)
    # A pool for many long requests has more slots than 32 bits can count.
    slots = req_to_token + tl.load(rows + request).to(tl.int64) * slots_per_request + length
    slot = tl.load(slots + token, mask=token < TOKENS, other=0)
    own = page_table + place.to(tl.int64)[:, None] * pages_per_token
    tl.store(own + to, tl.broadcast_to(slot[None, :], (BLOCK, BLOCK)), mask=inside)
    tl.store(key_lens + place, count, mask=token < TOKENS)


def list_seen_by_kernel(batch: Batch, trees: Trees, tables: PageTables) -> None:
    """Implement ``flash_branches.list_seen`` in one launch."""
    _list_seen[(batch.size,)](
        batch.seq_lens,
        batch.req_pool_indices,
        trees.mask.view(torch.uint8),
        tables.req_to_token,
        tables.pages,
        trees.counts,
        trees.live // trees.tokens,
        tables.req_to_token.shape[1],
        tables.pages.stride(0),
        trees.mask.numel() != trees.live * trees.tokens,
        trees.tokens,
        triton.next_power_of_2(trees.tokens),
        _BATCH_BLOCK,
        num_warps=1,
    )
