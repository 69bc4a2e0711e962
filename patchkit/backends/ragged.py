"""Fill offsets and slots for a backend that lists every token's slot, from lengths on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .metadata import Offsets, Rows


def fill_slots(rows: Rows, offsets: Offsets) -> None:
    """Write offsets and slots of a batch: on a GPU in one launch, without blocking the host."""
    if rows.seq_lens.is_cuda:
        from .ragged_kernel import fill_slots_by_kernel

        fill_slots_by_kernel(rows, offsets)
    else:
        fill_slots_by_torch(rows, offsets)


def fill_slots_by_torch(rows: Rows, offsets: Offsets) -> None:
    """Implement ``fill_slots`` by torch operations, which may wait for the device."""
    size, stride = rows.size, offsets.stride
    lens = (rows.seq_lens[:size].to(torch.int64) - offsets.ahead).clamp(min=0)
    offsets.keys[1 : size + 1] = lens.cumsum(0)
    if offsets.queries is not None:
        offsets.queries[: size + 1] = torch.arange(size + 1, device=lens.device) * stride
    if offsets.mask is not None:
        offsets.mask[1 : size + 1] = (stride * (lens + stride)).cumsum(0)
    columns = torch.arange(rows.req_to_token.shape[1], device=lens.device)
    live = rows.req_to_token[rows.req_pool_indices[:size].long()][columns < lens[:, None]]
    rows.slots[: live.numel()] = live.to(torch.int64)
