"""Linear attention's states behind the last accepted token, and at a tracking interval's end, move in one launch."""

from __future__ import annotations

from typing import NamedTuple

import torch


class States(NamedTuple):
    """The states of all layers, on the device.

    ``into`` [layers, slots, ...], contiguous, has a state for each slot; ``drafted`` [layers, requests, steps, ...],
    contiguous, the same behind each token of a verify. ``windows`` may overlap: its strides count.
    """

    into: torch.Tensor
    drafted: torch.Tensor
    windows_into: torch.Tensor
    windows: torch.Tensor


class Accepted(NamedTuple):
    """What a verify accepted, on the device.

    ``lens`` (int64, [requests]) are the lengths before, ``accepted`` (int32, [requests]) the accepted tokens with the
    bonus, ``places`` (int32, [requests, depth]) theirs in the batch, ``tokens`` a request's. Its state goes
    to its slot of ``slots`` (int32, [>= requests]), and the one at the last multiple of ``interval`` that it passed to
    that of ``tracked`` (int64, [requests]), where that is not None. All are contiguous. Negative slots are skipped.
    """

    lens: torch.Tensor
    accepted: torch.Tensor
    places: torch.Tensor
    tokens: int
    slots: torch.Tensor
    tracked: torch.Tensor | None
    interval: int


def commit(states: States, accepted: Accepted) -> None:
    """Write the states of what was accepted: on a GPU one launch, and the host waits for nothing."""
    if states.into.is_cuda:
        from .states_kernel import commit_by_kernel

        commit_by_kernel(states, accepted)
    else:
        commit_by_torch(states, accepted)


def commit_by_torch(states: States, accepted: Accepted) -> None:
    """Do what ``commit`` promises by torch operations, which may wait for the device."""
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
