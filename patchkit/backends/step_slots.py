"""The cache slots that a draft and its verify write, and the draft's positions, take one launch."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Ahead(NamedTuple):
    """What a step writes ahead of a batch, on the device: int64 views of one buffer.

    ``drafted`` [requests x steps] are the slots of the draft's tokens, ``verified`` [requests x tokens] those of the
    verify's, both from each request's length on; ``positions`` [requests] are the lengths.
    """

    buffer: torch.Tensor
    drafted: torch.Tensor
    verified: torch.Tensor
    positions: torch.Tensor


def slots_ahead(
    lens: torch.Tensor, rows: torch.Tensor, req_to_token: torch.Tensor, steps: int, tokens: int
) -> Ahead:
    """Look the slots up that follow ``lens``: on a GPU one launch, and the host waits for nothing.

    ``lens`` and ``rows``: integer, [requests], contiguous; ``req_to_token``: integer, [pool, slots], contiguous, with
    room for ``steps`` and ``tokens`` behind each length; all on the device.
    """
    requests = lens.shape[0]
    sizes = (requests * steps, requests * tokens, requests)
    buffer = torch.empty(sum(sizes), dtype=torch.int64, device=lens.device)
    ahead = Ahead(buffer, *buffer.split(sizes))
    if lens.is_cuda:
        from .step_slots_kernel import look_up_by_kernel

        look_up_by_kernel(lens, rows, req_to_token, steps, tokens, ahead)
    else:
        for found, width in ((ahead.drafted, steps), (ahead.verified, tokens)):
            columns = lens.long()[:, None] + torch.arange(width, device=lens.device)
            found.copy_(req_to_token[rows.long()[:, None], columns].flatten())
        ahead.positions.copy_(lens)
    return ahead
