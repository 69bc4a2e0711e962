"""The draft tokens that a tree's tokens see, by torch and by the kernel, beside a look at each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.kernels import Around, arounds, launch

from patchkit.backends.flash_branches import list_seen
from patchkit.backends.metadata import Batch, PageTables, Trees

if TYPE_CHECKING:
    from collections.abc import Callable

_WIDTH = 37
_POOL = 9

Case = tuple[int, int, int, bool, int]
cases: st.SearchStrategy[Case] = st.tuples(
    st.integers(0, 5),
    st.integers(0, 2),
    st.sampled_from([1, 2, 3, 4, 8, 17]),
    st.booleans(),
    st.integers(0, 1000),
)
"""Requests, padding, draft tokens, whether the mask is over the whole context, and a seed."""


def made(case: Case) -> tuple[Batch, Trees, PageTables]:
    requests, padding, tokens, whole, seed = case
    generator = torch.Generator().manual_seed(seed)
    every = requests + padding
    lens = torch.randint(0, _WIDTH - tokens, (every,), generator=generator)
    pool = torch.randperm(_POOL * _WIDTH, generator=generator).to(torch.int32).view(_POOL, _WIDTH)
    widths = [int(length) * whole + tokens for length in lens[:requests]]
    # A mask that a padded graph reads has at least one element.
    mask = torch.rand(max(1, tokens * sum(widths)), generator=generator) < 0.5
    live = requests * tokens
    counts = torch.full((every * tokens,), -7, dtype=torch.int32)
    pages = torch.full((every * tokens, tokens), -7, dtype=torch.int32)
    rows = torch.randint(_POOL, (every,), generator=generator)
    return Batch(lens, rows, every, 0), Trees(mask, live, tokens, counts), PageTables(pool, 1, pages)


def looked_at(case: Case) -> list[Any]:
    requests, padding, tokens, whole, _ = case
    batch, trees, tables = made(case)
    lens, mask = batch.seq_lens.tolist(), trees.mask.tolist()
    whole = len(mask) != requests * tokens * tokens
    counts, pages, start = [], [], 0
    for request in range(requests + padding):
        length = lens[request]
        row = tables.req_to_token[batch.req_pool_indices[request]].tolist()
        slots = row[length : length + tokens]
        for _ in range(tokens):
            behind = start + length * whole
            seen = mask[behind : behind + tokens] if request < requests else [mask[0]] * tokens
            start += length * whole + tokens
            counts.append(sum(seen))
            pages.append(
                [
                    slot
                    for wanted in (True, False)
                    for slot, sees in zip(slots, seen, strict=True)
                    if sees == wanted
                ]
            )
    return [counts, pages]


def found(trees: Trees, tables: PageTables) -> list[Any]:
    return [trees.counts.tolist(), tables.pages.tolist()]


@given(cases)
def test_torch_finds_what_a_look_finds(case: Case) -> None:
    batch, trees, tables = made(case)
    list_seen(batch, trees, tables)
    assert found(trees, tables) == looked_at(case)


def found_by_kernel(case: Case, wide: bool, around: Around) -> list[Any]:
    from patchkit.backends.tree_kernel import list_seen_by_kernel

    batch, trees, tables = made(case)
    kind = torch.int64 if wide else torch.int32
    batch = batch._replace(seq_lens=batch.seq_lens.to(kind), req_pool_indices=batch.req_pool_indices.to(kind))
    launch(list_seen_by_kernel, batch, trees, tables, around=around)
    return found(trees, tables)


@given(cases, st.booleans(), arounds)
def test_the_kernel_finds_what_a_look_finds(
    by_kernel: Callable[..., Any], case: Case, wide: bool, around: Around
) -> None:
    assert by_kernel(found_by_kernel, case, wide, around) == looked_at(case)
