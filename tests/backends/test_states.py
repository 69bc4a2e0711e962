"""States of linear attention moved by torch and by the kernel, beside a walk by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.kernels import Around, arounds, launch

from patchkit.backends.states import commit
from patchkit.backends.step_buffers import AcceptedTokens, States

if TYPE_CHECKING:
    from collections.abc import Callable

_LAYERS, _SLOTS, _SPARE, _DIM, _WINDOW = 2, 14, 1, 5, 3


class Case(NamedTuple):
    requests: int
    tokens: int
    seed: int
    tracks: bool
    overlapping: bool


cases = st.builds(
    Case, st.integers(0, 6), st.integers(1, 6), st.integers(0, 1000), st.booleans(), st.booleans()
)


def made(case: Case) -> tuple[States, AcceptedTokens]:
    """Return states of which no two are equal, and an accepted batch of which some are at an interval's end.

    Some requests accept nothing, which leaves their states.
    """
    requests, tokens, seed, tracks, overlapping = case
    generator = torch.Generator().manual_seed(seed)
    rows = requests + _SPARE
    states = torch.arange(_LAYERS * rows * tokens * 6.0).view(_LAYERS, rows, tokens, 2, 3)
    windows = torch.arange(_LAYERS * rows * tokens * _DIM * _WINDOW * 1.0) + 10_000
    windows = windows.view(_LAYERS, rows, tokens, _DIM, _WINDOW)
    if overlapping:
        shared = tokens + _WINDOW - 1
        whole = torch.arange(_LAYERS * rows * _DIM * shared * 1.0).view(_LAYERS, rows, _DIM, shared)
        by = whole.stride()
        windows = whole.as_strided((_LAYERS, rows, tokens, _DIM, _WINDOW), (by[0], by[1], 1, by[2], 1))
    into = torch.full((_LAYERS, _SLOTS, 2, 3), -1.0)
    windows_into = torch.full((_LAYERS, _SLOTS, _DIM, _WINDOW), -1.0)
    slots = torch.randperm(_SLOTS, generator=generator)[: 2 * requests]
    slots[torch.rand(2 * requests, generator=generator) < 0.2] = -1
    accepted = torch.randint(tokens + 1, (requests,), generator=generator, dtype=torch.int32)
    places = torch.arange(requests * tokens).view(requests, tokens)
    index = torch.where(torch.arange(tokens) < accepted[:, None], places, -1).to(torch.int32)
    batch = AcceptedTokens(
        torch.randint(1, 40, (requests,), generator=generator),
        accepted,
        index,
        tokens,
        torch.cat([slots[:requests], torch.tensor([-1])]).to(torch.int32),
        slots[requests:].clone() if tracks else None,
        interval=4,
    )
    return States(into, states, windows_into, windows), batch


def walked(states: States, batch: AcceptedTokens) -> tuple[torch.Tensor, torch.Tensor]:
    """Move each request's states by itself."""
    into, windows = states.into.clone(), states.windows_into.clone()

    def move(slot: int, row: int, step: int) -> None:
        if slot >= 0:
            into[:, slot] = states.drafted[:, row, step]
            windows[:, slot] = states.windows[:, row, step]

    for row, count in enumerate(batch.accepted.tolist()):
        if not count:
            continue
        move(int(batch.slots[row]), row, count - 1)
        if batch.tracked is not None:
            before = int(batch.lens[row])
            ends = [at for at in range(before + 1, before + count + 1) if at % batch.interval == 0]
            if ends:
                move(int(batch.tracked[row]), row, ends[-1] - before - 1)
    return into, windows


@given(cases)
def test_torch_moves_what_a_walk_moves(case: Case) -> None:
    states, batch = made(case)
    expected = walked(states, batch)
    commit(states, batch)
    assert torch.equal(states.into, expected[0])
    assert torch.equal(states.windows_into, expected[1])


def moved_by_kernel(case: Case, block: int | None, around: Around) -> tuple[torch.Tensor, torch.Tensor]:
    from patchkit.backends import states_kernel

    states, batch = made(case)
    shipped = states_kernel._BLOCK
    states_kernel._BLOCK = block or shipped
    try:
        launch(states_kernel.commit_by_kernel, states, batch, around=around)
    finally:
        states_kernel._BLOCK = shipped
    return states.into, states.windows_into


@given(cases, st.sampled_from([None, 4]), arounds)
def test_the_kernel_moves_what_a_walk_moves(
    by_kernel: Callable[..., Any], case: Case, block: int | None, around: Around
) -> None:
    moved, expected = by_kernel(moved_by_kernel, case, block, around), walked(*made(case))
    assert all(map(torch.equal, moved, expected))
