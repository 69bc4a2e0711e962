"""Commit a batch's accepted tokens in one launch.

Imported only where Triton is needed: ``commit`` does so for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

    from .step_buffers import AcceptedPaths, CommittedTokens

_BATCH_BLOCK = 256


# The number of requests and of accepted tokens varies between steps, and must not compile variants.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["requests", "total"],
    do_not_specialize_on_alignment=["index", "drafts", "predicted", "lens", "slots", "rows"],
)
def _commit(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    index,
    drafts,
    predicted,
    lens,
    slots,
    rows,
    req_to_token,
    narrow,
    wide,
    requests,
    total,
    slots_per_request,
    DEPTH: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    BATCH_BLOCK: tl.constexpr,  # noqa: N803
):
    request = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    start = 0
    for first in range(0, request, BATCH_BLOCK):
        other = first + tl.arange(0, BATCH_BLOCK)
        start += tl.sum(tl.load(drafts + other, mask=other < request, other=-1) + 1, 0)
    count = tl.load(drafts + request) + 1
    taken = (at < count) & (at < DEPTH)
    path = tl.load(index + request * DEPTH + at, mask=taken, other=-1)
    token = tl.load(predicted + path, mask=taken, other=0)
    slot = tl.load(slots + path, mask=taken, other=0)
    length = tl.load(lens + request)
    tl.store(narrow + start + at, path, mask=taken)
    tl.store(narrow + total + start + at, token, mask=taken)
    own = narrow + 2 * total + request
    tl.store(own, count)
    tl.store(own + requests, tl.sum(tl.where(at == count - 1, token, 0), 0))
    tl.store(own + 2 * requests, start)
    tl.store(wide + start + at, slot, mask=taken)
    tl.store(wide + total + start + at, (length + at).to(tl.int64), mask=taken)
    place = request * TOKENS + at
    rejected = (at < TOKENS) & (tl.sum((place[:, None] == path[None, :]).to(tl.int32), 1) == 0)
    rank = tl.cumsum(rejected.to(tl.int32), 0) - 1
    free = tl.load(slots + place, mask=rejected, other=0)
    tl.store(wide + 2 * total + request * TOKENS - start + rank, free, mask=rejected)
    # A pool for many long requests has more slots than 32 bits can count.
    row = req_to_token + tl.load(rows + request).to(tl.int64) * slots_per_request + length
    tl.store(row + at, slot.to(req_to_token.dtype.element_ty), mask=taken)
    tl.store(lens + request, length + count)


def commit_by_kernel(paths: AcceptedPaths, predicted: torch.Tensor, committed: CommittedTokens) -> None:
    """Do what ``commit.commit_paths`` promises, in one launch."""
    requests, depth = paths.places.shape
    tokens = paths.slots.shape[0] // requests
    _commit[(requests,)](
        paths.places,
        paths.drafts,
        predicted,
        paths.lens,
        paths.slots,
        paths.rows,
        paths.req_to_token,
        committed.narrow,
        committed.wide,
        requests,
        committed.kept.shape[0],
        paths.req_to_token.shape[1],
        depth,
        tokens,
        triton.next_power_of_2(max(depth, tokens)),
        _BATCH_BLOCK,
        num_warps=1,
    )
