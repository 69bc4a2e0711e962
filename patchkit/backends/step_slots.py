"""Compute the cache slots that a draft and its verify write, and the draft's positions, in one launch."""

from __future__ import annotations

import torch

from .step_buffers import AheadSlots


def slots_ahead(
    lens: torch.Tensor, rows: torch.Tensor, req_to_token: torch.Tensor, steps: int, tokens: int
) -> AheadSlots:
    """Look the slots up that follow ``lens``: on a GPU one launch, and the host waits for nothing.

    ``lens`` and ``rows``: integer, [requests], contiguous; ``req_to_token``: integer, [pool, slots], contiguous, with
    room for ``steps`` and ``tokens`` behind each length; all on the device. The slots of padding, whose length is 0,
    are 0.
    """
    requests = lens.shape[0]
    sizes = (requests * steps, requests * tokens, requests)
    buffer = torch.empty(sum(sizes), dtype=torch.int64, device=lens.device)
    ahead = AheadSlots(buffer, *buffer.split_with_sizes(sizes))
    fill_slots_ahead(lens, rows, req_to_token, ahead)
    return ahead


def fill_slots_ahead(
    lens: torch.Tensor, rows: torch.Tensor, req_to_token: torch.Tensor, ahead: AheadSlots
) -> None:
    """Write what `slots_ahead` returns to ``ahead``, which says how many slots there are."""
    requests = max(lens.shape[0], 1)
    steps, tokens = ahead.drafted.shape[0] // requests, ahead.verified.shape[0] // requests
    if lens.is_cuda:
        from .step_slots_kernel import look_up_by_kernel

        look_up_by_kernel(lens, rows, req_to_token, steps, tokens, ahead)
        return
    for found, width in ((ahead.drafted, steps), (ahead.verified, tokens)):
        columns = lens.long()[:, None] + torch.arange(width, device=lens.device)
        slots = req_to_token[rows.long()[:, None], columns]
        found.copy_(torch.where(lens[:, None] > 0, slots, 0).flatten())
    ahead.positions.copy_(lens)
