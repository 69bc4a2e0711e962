"""Fill a paged backend's graph metadata from lengths on the device, by a kernel or by torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .metadata import Batch, Lengths, PageTables


def fill(batch: Batch, lengths: Lengths, tables: PageTables) -> None:
    """Write ``lengths`` and ``tables`` for ``batch``: on a GPU in one launch, without blocking the host.

    ``lengths.keys`` may be ``batch.seq_lens`` itself if ``batch.extra`` is 0.

    Of a page table's row only the columns of the request's own pages are written, at most as many as the table and
    ``req_to_token`` have. The others keep their content, initial or from an earlier batch, which kernels do not
    read, since they end at the length. Even a kernel that prefetched a page would read a valid one, since pages
    stay in the pool. Code that writes every row up to the longest request's last page leaves entries there that are
    no less stale.
    """
    if batch.seq_lens.is_cuda:
        from .paged_kernel import fill_by_kernel

        fill_by_kernel(batch, lengths, tables)
    else:
        fill_by_torch(batch, lengths, tables)


def fill_by_torch(batch: Batch, lengths: Lengths, tables: PageTables) -> None:
    """Implement ``fill`` by torch operations."""
    first_keys = batch.seq_lens[: batch.size].to(torch.int32) + batch.extra
    keys = first_keys + lengths.steps - 1
    # A single step has no dimension for steps.
    own, offsets = (rows.view(lengths.steps, rows.shape[-1]) for rows in (lengths.keys, lengths.key_offsets))
    for step in range(lengths.steps):
        own[step, : batch.size] = first_keys + step
        _write_offsets(offsets[step], first_keys + step)
    if lengths.query_offsets is not None:
        stride = torch.full_like(keys, lengths.query_stride)
        taken = stride if lengths.accepted is None else lengths.accepted[: batch.size]
        _write_offsets(lengths.query_offsets, taken)
    first = torch.arange(tables.pages.shape[1], device=keys.device) * tables.page_size
    # A table may be padded beyond the most pages of a request.
    last = tables.req_to_token.shape[1] - 1
    live = (first <= last) & (first < keys[:, None])
    column = first.clamp(max=last)
    slots = tables.req_to_token[batch.req_pool_indices[: batch.size].long()[:, None], column].long()
    _write_pages(tables.pages, slots, live, tables.page_size)
    if tables.full_to_swa is not None and tables.swa_pages is not None:
        # Other columns may not contain a slot.
        counterparts = tables.full_to_swa[torch.where(live, slots, 0).clamp(min=0)]
        _write_pages(tables.swa_pages, torch.where(slots < 0, -1, counterparts), live, tables.page_size)


def _write_offsets(offsets: torch.Tensor, lens: torch.Tensor) -> None:
    """Write the prefix sums of ``lens``, from 0."""
    offsets[0] = 0
    offsets[1 : lens.shape[0] + 1] = lens.cumsum(0, dtype=torch.int32)


def _write_pages(table: torch.Tensor, slots: torch.Tensor, live: torch.Tensor, page_size: int) -> None:
    """Write the pages of ``slots`` where they are ``live``."""
    rows = table[: slots.shape[0]]
    rows.copy_(torch.where(live, slots // page_size, rows))
