"""Move linear attention's states after the last accepted token, and at a tracking interval's end, in one launch."""

from __future__ import annotations

from typing import NamedTuple

import torch


class States(NamedTuple):
    """The states of all layers, on the device.

    ``into`` [layers, slots, ...], contiguous, has one state per slot; ``drafted`` [layers, requests, steps, ...],
    contiguous, has those after each token of a verify. ``windows`` may overlap, by its strides.
    """

    into: torch.Tensor
    drafted: torch.Tensor
    windows_into: torch.Tensor
    windows: torch.Tensor


class Accepted(NamedTuple):
    """The accepted tokens of a verify, on the device.

    ``lens`` (int64, [requests]) are the lengths before, ``accepted`` (int32, [requests]) the numbers of accepted
    tokens with the bonus, ``places`` (int32, [requests, depth]) their positions in the batch, ``tokens`` the tokens
    per request. The state after them goes to the request's slot in ``slots`` (int32, [>= requests]), and the one at
    the last multiple of ``interval`` before it to that in ``tracked`` (int64, [requests]), if that is not None. All
    are contiguous. Negative slots are skipped.
    """

    lens: torch.Tensor
    accepted: torch.Tensor
    places: torch.Tensor
    tokens: int
    slots: torch.Tensor
    tracked: torch.Tensor | None
    interval: int


def commit(states: States, accepted: Accepted) -> None:
    """Write the states after the accepted tokens: on a GPU in one launch, without blocking the host."""
    if states.into.is_cuda:
        from .states_kernel import commit_by_kernel

        commit_by_kernel(states, accepted)
    else:
        commit_by_torch(states, accepted)


def commit_by_torch(states: States, accepted: Accepted) -> None:
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
