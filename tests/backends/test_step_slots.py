"""The slots that a step writes ahead, by torch and by the kernel, beside a look at each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.kernels import Around, arounds, launch

from patchkit.backends.step_slots import slots_ahead

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.backends.step_buffers import AheadSlots

_WIDTH = 37

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def batch(requests: int, seed: int, pool_rows: int = 9) -> Batch:
    """Return lengths, rows of the pool and the pool, in which no slot is there twice."""
    generator = torch.Generator().manual_seed(seed)
    slots = torch.randperm(pool_rows * _WIDTH, generator=generator).to(torch.int32)
    return (
        torch.randint(0, _WIDTH - 5, (requests,), generator=generator),
        torch.randint(pool_rows, (requests,), generator=generator),
        slots.view(pool_rows, _WIDTH),
    )


def looked_at(given: Batch, steps: int, tokens: int) -> list[list[int]]:
    lens, rows, pool = (value.tolist() for value in given)
    return [
        [
            # Padding has no length, and slot 0.
            pool[row][length + at] if length else 0
            for row, length in zip(rows, lens, strict=True)
            for at in range(width)
        ]
        for width in (steps, tokens)
    ] + [lens]


def slots_of(ahead: AheadSlots) -> list[list[int]]:
    return [value.tolist() for value in ahead[1:]]


@given(st.integers(0, 6), st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
def test_torch_finds_what_a_look_finds(requests: int, steps: int, tokens: int, seed: int) -> None:
    made = batch(requests, seed)
    assert slots_of(slots_ahead(*made, steps, tokens)) == looked_at(made, steps, tokens)


def found_by_kernel(
    made: tuple[int, int, int], steps: int, tokens: int, wide: bool, around: Around
) -> list[list[int]]:
    from patchkit.backends.step_slots_kernel import look_up_by_kernel

    lens, rows, pool = batch(*made)
    ahead = slots_ahead(lens, rows, pool, steps, tokens)
    ahead.buffer.fill_(-77)
    kind = torch.int64 if wide else torch.int32
    launch(look_up_by_kernel, lens.to(kind), rows.to(kind), pool, steps, tokens, ahead, around=around)
    return slots_of(ahead)


@given(
    st.tuples(st.integers(0, 6), st.integers(0, 1000), st.sampled_from([1, 9])),
    st.integers(1, 5),
    st.integers(1, 5),
    st.booleans(),
    arounds,
)
def test_the_kernel_finds_what_a_look_finds(  # noqa: PLR0917
    by_kernel: Callable[..., Any],
    made: tuple[int, int, int],
    steps: int,
    tokens: int,
    wide: bool,
    around: Around,
) -> None:
    found = by_kernel(found_by_kernel, made, steps, tokens, wide, around)
    assert found == looked_at(batch(*made), steps, tokens)
