"""A backend that lists every token's slot gets a batch's offsets and slots from device lengths, in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .metadata import Offsets


def fill_slots(
    size: int,
    seq_lens: torch.Tensor,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    *,
    offsets: Offsets,
    slots: torch.Tensor,
) -> None:
    """Write ``offsets`` and ``slots`` of ``size`` requests: on a GPU one launch, and the host waits for nothing.

    ``seq_lens`` and ``req_pool_indices``: integer, [>= size], contiguous. ``req_to_token``: integer,
    [requests, tokens], contiguous, the slot of each request's every token. ``slots``: int64, contiguous; request
    after request gets the slots of its tokens, and what is behind the last keeps what it holds.
    """
    if seq_lens.is_cuda:
        from .ragged_kernel import fill_slots_by_kernel

        fill_slots_by_kernel(size, seq_lens, req_pool_indices, req_to_token, offsets=offsets, slots=slots)
    else:
        fill_slots_by_torch(size, seq_lens, req_pool_indices, req_to_token, offsets=offsets, slots=slots)


def fill_slots_by_torch(
    size: int,
    seq_lens: torch.Tensor,
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    *,
    offsets: Offsets,
    slots: torch.Tensor,
) -> None:
    """Do what ``fill_slots`` promises by torch operations, which may wait for the device."""
    lens = seq_lens[:size].to(torch.int64)
    stride = offsets.stride
    offsets.keys[1 : size + 1] = lens.cumsum(0)
    if offsets.queries is not None:
        offsets.queries[: size + 1] = torch.arange(size + 1, device=lens.device) * stride
    if offsets.mask is not None:
        offsets.mask[1 : size + 1] = (stride * (lens + stride)).cumsum(0)
    columns = torch.arange(req_to_token.shape[1], device=lens.device)
    live = req_to_token[req_pool_indices[:size].long()][columns < lens[:, None]]
    slots[: live.numel()] = live.to(torch.int64)
