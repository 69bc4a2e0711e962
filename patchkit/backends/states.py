"""Move linear attention's states after the last accepted token, and at a tracking interval's end, in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .step_buffers import AcceptedTokens, States


def commit(states: States, accepted: AcceptedTokens) -> None:
    """Write the states after the accepted tokens: on a GPU in one launch, without blocking the host."""
    if states.into.is_cuda:
        from .states_kernel import commit_by_kernel

        commit_by_kernel(states, accepted)
    else:
        commit_by_torch(states, accepted)


def commit_by_torch(states: States, accepted: AcceptedTokens) -> None:
    """Implement ``commit`` by torch operations, which may wait for the device."""
    requests = accepted.accepted.shape[0]
    rows = torch.arange(requests, device=accepted.lens.device)
    count = accepted.accepted.long()
    steps = accepted.places.long() - rows[:, None] * accepted.tokens
    _write(states, accepted.slots[:requests].long(), steps[rows, count - 1])
    if accepted.tracked is not None:
        after = accepted.lens + count
        crossed = accepted.lens // accepted.interval != after // accepted.interval
        at = (after // accepted.interval * accepted.interval - accepted.lens - 1).clamp(min=0)
        _write(states, accepted.tracked, torch.where(crossed, steps[rows, at], -1))


def _write(states: States, slots: torch.Tensor, steps: torch.Tensor) -> None:
    requests, most = states.drafted.shape[1:3]
    rows = torch.arange(slots.shape[0], device=slots.device)
    live = (slots >= 0) & (slots < states.into.shape[1]) & (steps >= 0) & (steps < most) & (rows < requests)
    slots, steps, rows = slots[live], steps[live], rows[live]
    states.into[:, slots] = states.drafted[:, rows, steps]
    states.windows_into[:, slots] = states.windows[:, rows, steps]
