"""Write a batch's offsets and slots in one launch.

Imported only where Triton is needed: by ``ragged``, for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    from .metadata import Offsets, Rows

_BATCH_BLOCK = 512
_TOKEN_BLOCK = 1024
# Several for each multiprocessor of a large GPU.
_PROGRAMS = 2048


# Values and alignments that vary between replays must not compile variants.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["size", "stride", "ahead"],
    do_not_specialize_on_alignment=[
        "seq_lens",
        "req_pool_indices",
        "key_offsets",
        "query_offsets",
        "mask_offsets",
    ],
)
def _fill(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    seq_lens,
    req_pool_indices,
    req_to_token,
    key_offsets,
    query_offsets,
    mask_offsets,
    slots,
    size,
    stride,
    ahead,
    slots_per_request,
    TOKEN_BLOCK: tl.constexpr,  # noqa: N803
    BATCH_BLOCK: tl.constexpr,  # noqa: N803
):
    if tl.program_id(0) == 0:
        # The other programs compute their own sums, and do not wait for this one.
        if tl.program_id(1) == 0:
            before = tl.cast(0, tl.int64)
            for start in range(0, size, BATCH_BLOCK):
                request = start + tl.arange(0, BATCH_BLOCK)
                live = request < size
                lens = tl.maximum(tl.load(seq_lens + request, mask=live, other=0).to(tl.int64) - ahead, 0)
                sums = before + tl.cumsum(lens, 0)
                tl.store(key_offsets + 1 + request, sums.to(tl.int32), mask=live)
                past = (request + 1).to(tl.int64) * stride
                if query_offsets is not None:
                    tl.store(query_offsets + 1 + request, past, mask=live)
                if mask_offsets is not None:
                    tl.store(mask_offsets + 1 + request, stride * (sums + past), mask=live)
                before += tl.sum(lens, 0)
            if query_offsets is not None:
                tl.store(query_offsets, tl.cast(0, tl.int64))
    else:
        request = tl.program_id(0) - 1
        length = tl.maximum(tl.load(seq_lens + request).to(tl.int32) - ahead, 0)
        first = tl.cast(0, tl.int64)
        for start in range(0, request, BATCH_BLOCK):
            earlier = start + tl.arange(0, BATCH_BLOCK)
            lens = tl.load(seq_lens + earlier, mask=earlier < request, other=0).to(tl.int64)
            first += tl.sum(tl.maximum(lens - ahead, 0), 0)
        # A pool for many long requests has more slots than 32 bits can index.
        source = req_to_token + tl.load(req_pool_indices + request).to(tl.int64) * slots_per_request
        for start in range(tl.program_id(1) * TOKEN_BLOCK, length, tl.num_programs(1) * TOKEN_BLOCK):
            token = start + tl.arange(0, TOKEN_BLOCK)
            live = token < length
            slot = tl.load(source + token, mask=live, other=0)
            tl.store(slots + first + token, slot.to(tl.int64), mask=live)


def fill_slots_by_kernel(rows: Rows, offsets: Offsets) -> None:
    """Implement ``ragged.fill_slots`` in one launch."""
    slots_per_request = rows.req_to_token.shape[1]
    # At least one, which writes the offsets.
    splits = max(1, min(-(-slots_per_request // _TOKEN_BLOCK), _PROGRAMS // max(rows.size, 1)))
    _fill[(rows.size + 1, splits)](
        rows.seq_lens,
        rows.req_pool_indices,
        rows.req_to_token,
        offsets.keys,
        offsets.queries,
        offsets.mask,
        rows.slots,
        rows.size,
        offsets.stride,
        offsets.ahead,
        slots_per_request,
        _TOKEN_BLOCK,
        _BATCH_BLOCK,
    )
