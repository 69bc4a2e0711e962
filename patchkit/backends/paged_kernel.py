"""Write a batch's lengths, offsets and page tables in one launch.

Imported only where Triton is needed: by ``patchkit.backends.paged``, for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    from .metadata import Batch, Lengths, PageTables

_BATCH_BLOCK = 512
_PAGE_BLOCK = 512
# Several for each multiprocessor of a large GPU, to balance rows of unequal length.
_PROGRAMS = 2048


@triton.jit  # type: ignore[untyped-decorator]
def _page(slot, PAGE_SIZE: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    # Division of integer tensors truncates here and floors in torch.
    return tl.where(slot < 0, -1 - (-1 - slot) // PAGE_SIZE, slot // PAGE_SIZE)


# Values and alignments that vary between replays must not compile variants.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["bs", "extra", "query_stride"],
    do_not_specialize_on_alignment=["seq_lens", "req_pool_indices", "accepted"],
)
def _fill(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    seq_lens,
    req_pool_indices,
    accepted,
    req_to_token,
    full_to_swa,
    key_lens,
    key_offsets,
    query_offsets,
    page_table,
    swa_page_table,
    bs,
    extra,
    query_stride,
    slots_per_request,
    pages_per_request,
    keys_per_step,
    offsets_per_step,
    STEPS: tl.constexpr,  # noqa: N803
    PAGE_SIZE: tl.constexpr,  # noqa: N803
    PAGE_BLOCK: tl.constexpr,  # noqa: N803
    BATCH_BLOCK: tl.constexpr,  # noqa: N803
):
    if tl.program_id(0) == 0:
        # One program computes the prefix sums, which no page depends on.
        if tl.program_id(1) == 0:
            keys_before = 0
            queries_before = 0
            for start in range(0, bs, BATCH_BLOCK):
                request = start + tl.arange(0, BATCH_BLOCK)
                live = request < bs
                lens = tl.load(seq_lens + request, mask=live, other=0).to(tl.int32) + extra
                sums = keys_before + tl.cumsum(lens, 0)
                for step in tl.static_range(STEPS):
                    tl.store(key_lens + step * keys_per_step + request, lens + step, mask=live)
                    step_sums = sums + step * (request + 1)
                    tl.store(key_offsets + step * offsets_per_step + 1 + request, step_sums, mask=live)
                keys_before += tl.sum(lens, 0)
                if query_offsets is not None:
                    if accepted is not None:
                        taken = tl.load(accepted + request, mask=live, other=0).to(tl.int32)
                        tl.store(query_offsets + 1 + request, queries_before + tl.cumsum(taken, 0), mask=live)
                        queries_before += tl.sum(taken, 0)
                    else:
                        tl.store(query_offsets + 1 + request, (request + 1) * query_stride, mask=live)
            for step in tl.static_range(STEPS):
                tl.store(key_offsets + step * offsets_per_step, 0)
            if query_offsets is not None:
                tl.store(query_offsets, 0)
    else:
        request = tl.program_id(0) - 1
        length = tl.load(seq_lens + request).to(tl.int32) + extra + STEPS - 1
        most = tl.minimum(pages_per_request, tl.cdiv(slots_per_request, PAGE_SIZE))
        pages = tl.minimum(tl.cdiv(length, PAGE_SIZE), most)
        # A pool for many long requests has more slots than 32 bits can index.
        slots = req_to_token + tl.load(req_pool_indices + request).to(tl.int64) * slots_per_request
        row = request.to(tl.int64) * pages_per_request
        for start in range(tl.program_id(1) * PAGE_BLOCK, pages, tl.num_programs(1) * PAGE_BLOCK):
            page = start + tl.arange(0, PAGE_BLOCK)
            live = page < pages
            slot = tl.load(slots + page * PAGE_SIZE, mask=live, other=0)
            tl.store(page_table + row + page, _page(slot, PAGE_SIZE), mask=live)
            if swa_page_table is not None:
                swa_slot = tl.load(full_to_swa + slot, mask=live & (slot >= 0), other=-1)
                tl.store(swa_page_table + row + page, _page(swa_slot, PAGE_SIZE), mask=live)


def fill_by_kernel(batch: Batch, lengths: Lengths, tables: PageTables) -> None:
    """Implement ``patchkit.backends.paged.fill`` in one launch."""
    pages_per_request = tables.pages.shape[1]
    # At least one, which writes the offsets.
    splits = max(1, min(-(-pages_per_request // _PAGE_BLOCK), _PROGRAMS // max(batch.size, 1)))
    _fill[(batch.size + 1, splits)](
        batch.seq_lens,
        batch.req_pool_indices,
        lengths.accepted,
        tables.req_to_token,
        tables.full_to_swa,
        lengths.keys,
        lengths.key_offsets,
        lengths.query_offsets,
        tables.pages,
        tables.swa_pages,
        batch.size,
        batch.extra,
        lengths.query_stride,
        tables.req_to_token.shape[1],
        pages_per_request,
        lengths.keys.stride(0) if lengths.steps > 1 else 0,
        lengths.key_offsets.stride(0) if lengths.steps > 1 else 0,
        lengths.steps,
        tables.page_size,
        _PAGE_BLOCK,
        _BATCH_BLOCK,
    )
