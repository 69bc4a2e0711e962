"""What the verify of drafted chains reads, by torch and by the kernel, beside a look at each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.kernels import Around, arounds, launch

from patchkit.backends.chain_inputs import fill_chains
from patchkit.backends.step_buffers import ChainDrafts, ChainInputs, ChainMask

if TYPE_CHECKING:
    from collections.abc import Callable

Case = tuple[int, int, int, bool]
Written = tuple[list[list[int]], list[int] | None]
cases = st.tuples(st.integers(0, 5), st.integers(2, 6), st.integers(0, 1000), st.booleans())
_ROOM = 9


def batch(case: Case) -> tuple[ChainDrafts, ChainInputs, ChainMask | None]:
    """Return drafts, of which some are padding of length 0, poisoned buffers, and a mask that ends too early."""
    requests, width, seed, masked = case
    generator = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randint(0, 99, shape, generator=generator)

    lens = numbers(requests) * (numbers(requests) > 20)
    drafted = ChainDrafts(
        lens, numbers(requests), numbers(requests), numbers(requests, width - 1), numbers(requests * width)
    )
    sizes = (*[requests * width] * 5, requests)
    inputs = ChainInputs._make(torch.full((size,), -7) for size in sizes)
    seen = lens.clamp(min=1).to(torch.int32)
    starts = torch.cat([torch.zeros(1), (width * (seen + width)).cumsum(0)]).long()
    size = max(int(starts[-1]) - _ROOM, 1) if seed % 3 == 0 else int(starts[-1]) + _ROOM
    mask = ChainMask(torch.full((size,), 3, dtype=torch.uint8), starts, seen)
    return drafted, inputs, mask if masked else None


def written(inputs: ChainInputs, mask: ChainMask | None) -> Written:
    return [value.tolist() for value in inputs], None if mask is None else mask.mask.tolist()


def looked_at(case: Case) -> Written:
    drafted, _, mask = batch(case)
    requests, width = case[:2]
    lens, rows, bonus, drafts, slots = (value.tolist() for value in drafted)
    tokens = [token for at in range(requests) for token in (bonus[at], *drafts[at])]
    positions = [length + at for length in lens for at in range(width)]
    found = None if mask is None else mask.mask.tolist()
    if found is not None:
        for request, length in enumerate(lens):
            before, start = max(length, 1), int(mask.starts[request]) if mask else 0
            for row in range(width):
                for column in range(width):
                    place = start + row * (before + width) + before + column
                    if place < len(found):
                        found[place] = int(column <= row)
    return [tokens, positions, tokens, positions, slots, rows], found


@given(cases)
def test_torch_writes_what_a_look_finds(case: Case) -> None:
    drafted, inputs, mask = batch(case)
    fill_chains(drafted, inputs, mask)
    assert written(inputs, mask) == looked_at(case)


def filled_by_kernel(case: Case, around: Around) -> Written:
    from patchkit.backends.chain_inputs_kernel import fill_chains_by_kernel

    drafted, inputs, mask = batch(case)
    launch(fill_chains_by_kernel, drafted, inputs, mask, around=around)
    return written(inputs, mask)


@given(cases, arounds)
def test_the_kernel_writes_what_a_look_finds(
    by_kernel: Callable[..., Any], case: Case, around: Around
) -> None:
    assert by_kernel(filled_by_kernel, case, around) == looked_at(case)
