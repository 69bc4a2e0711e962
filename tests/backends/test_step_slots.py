"""The slots that a step writes ahead, by torch and by the kernel, beside a look at each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.interpreted import interpreted

from patchkit.backends.step_slots import slots_ahead

if TYPE_CHECKING:
    from patchkit.backends.step_buffers import AheadSlots

_POOL, _WIDTH = 9, 40
SHAPES = ((1, 1, 2), (3, 3, 4), (2, 5, 3), (5, 4, 5))

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def batch(requests: int, seed: int) -> Batch:
    """Return lengths, rows of the pool and the pool, in which no slot is there twice."""
    generator = torch.Generator().manual_seed(seed)
    pool = torch.randperm(_POOL * _WIDTH, generator=generator).to(torch.int32).view(_POOL, _WIDTH)
    return (
        torch.randint(0, 30, (requests,), generator=generator),
        torch.randint(_POOL, (requests,), generator=generator),
        pool,
    )


def looked_at(given: Batch, steps: int, tokens: int) -> list[list[int]]:
    lens, rows, pool = (value.tolist() for value in given)
    return [
        [pool[row][length + at] for row, length in zip(rows, lens, strict=True) for at in range(width)]
        for width in (steps, tokens)
    ] + [lens]


def slots_of(ahead: AheadSlots) -> list[list[int]]:
    return [value.tolist() for value in ahead[1:]]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
def test_torch_finds_what_a_look_finds(requests: int, steps: int, tokens: int, seed: int) -> None:
    made = batch(requests, seed)
    assert slots_of(slots_ahead(*made, steps, tokens)) == looked_at(made, steps, tokens)


_INTERPRETED = """
import torch
from patchkit.backends.step_slots import slots_ahead
from patchkit.backends.step_slots_kernel import look_up_by_kernel
from backends.test_step_slots import SHAPES, batch, looked_at, slots_of
for seed, (requests, steps, tokens) in enumerate(SHAPES * 3):
    for kind in (torch.int32, torch.int64):
        made = batch(requests, seed)
        ahead = slots_ahead(*made, steps, tokens)
        ahead.buffer.fill_(-77)
        look_up_by_kernel(made[0], made[1].to(kind), made[2], steps, tokens, ahead)
        assert slots_of(ahead) == looked_at(made, steps, tokens), (seed, requests, steps, tokens)
print("equal")
"""


def test_the_kernel_finds_what_a_look_finds() -> None:
    assert interpreted(_INTERPRETED) == "equal\n"
