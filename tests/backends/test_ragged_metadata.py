"""Offsets and slots by torch and by the kernel, beside a count by hand."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.kernels import Around, arounds, launch

from patchkit.backends.metadata import Offsets, Rows
from patchkit.backends.ragged import fill_slots

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

REQUESTS = 20
CONTEXT = 150
# What an earlier batch left: no slot of the pool has this number.
DIRT = 987_654


@dataclass(frozen=True)
class Case:
    """One batch; ``spare`` rows, lengths and offsets lie behind it."""

    lens: tuple[int, ...]
    stride: int
    spare: int
    seed: int
    queries: bool
    mask: bool
    wide: bool
    ahead: int = 0


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Case(
        lens=tuple(draw(st.lists(st.integers(0, CONTEXT), max_size=12))),
        stride=draw(st.integers(1, 5)),
        spare=draw(st.integers(0, 3)),
        seed=draw(st.integers(0, 1000)),
        queries=draw(st.booleans()),
        mask=draw(st.booleans()),
        wide=draw(st.booleans()),
        ahead=draw(st.sampled_from([0, 0, 1, 4])),
    )


Written = list[list[int] | None]


def filled(case: Case, blocks: tuple[int, int, int] | None = None, around: Around | None = None) -> Written:
    """Return every element of every buffer after a fill by torch or, if anything is ``around`` them, by the kernel."""
    size, room = len(case.lens), len(case.lens) + case.spare
    generator = torch.Generator().manual_seed(case.seed)
    kind = torch.int64 if case.wide else torch.int32
    rows = torch.cat([torch.randint(REQUESTS, (size,), generator=generator), torch.full((case.spare,), DIRT)])
    lens = torch.tensor([*case.lens, *[DIRT] * case.spare], dtype=kind)
    pool = torch.randint(1 << 20, (REQUESTS, CONTEXT), generator=generator).to(torch.int32)

    def offsets(dtype: torch.dtype) -> torch.Tensor:
        made = torch.full((room + 1,), DIRT, dtype=dtype)
        made[0] = 0
        return made

    into = Offsets(
        offsets(torch.int32),
        offsets(torch.int64) if case.queries else None,
        offsets(torch.int64) if case.mask else None,
        case.stride,
        case.ahead,
    )
    slots = torch.full((room * CONTEXT,), DIRT, dtype=torch.int64)
    batch = Rows(size, lens, rows.to(kind), pool, slots)
    if around is not None:
        from patchkit.backends import ragged_kernel

        shipped = (ragged_kernel._BATCH_BLOCK, ragged_kernel._TOKEN_BLOCK, ragged_kernel._PROGRAMS)
        chosen = blocks or shipped
        ragged_kernel._BATCH_BLOCK, ragged_kernel._TOKEN_BLOCK, ragged_kernel._PROGRAMS = chosen
        try:
            launch(ragged_kernel.fill_slots_by_kernel, batch, into, around=around)
        finally:
            ragged_kernel._BATCH_BLOCK, ragged_kernel._TOKEN_BLOCK, ragged_kernel._PROGRAMS = shipped
    else:
        fill_slots(batch, into)
    return [None if value is None else value.tolist() for value in (*into[:3], slots)]


def by_hand(case: Case) -> Written:
    size, room = len(case.lens), len(case.lens) + case.spare
    generator = torch.Generator().manual_seed(case.seed)
    rows = torch.randint(REQUESTS, (size,), generator=generator).tolist()
    pool = torch.randint(1 << 20, (REQUESTS, CONTEXT), generator=generator).tolist()
    keys, queries, mask, slots = [0], [0], [0], []
    for row, counted in zip(rows, case.lens, strict=True):
        length = max(0, counted - case.ahead)
        keys.append(keys[-1] + length)
        queries.append(queries[-1] + case.stride)
        mask.append(mask[-1] + case.stride * (length + case.stride))
        slots += pool[row][:length]
    behind = [DIRT] * case.spare
    return [
        keys + behind,
        queries + behind if case.queries else None,
        mask + behind if case.mask else None,
        slots + [DIRT] * (room * CONTEXT - len(slots)),
    ]


@given(cases())
def test_torch_fills_the_values_of_a_direct_count(case: Case) -> None:
    assert filled(case) == by_hand(case)


@given(case=cases(), blocks=st.sampled_from([None, (4, 8, 6)]), around=arounds)
def test_the_kernel_fills_the_same(
    by_kernel: Callable[..., Any], case: Case, blocks: tuple[int, int, int] | None, around: Around
) -> None:
    assert by_kernel(filled, case, blocks, around) == by_hand(case)


def test_what_is_on_the_cpu_needs_no_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    case = Case((3, 1), 2, 0, 0, queries=True, mask=True, wide=True)
    assert filled(case) == by_hand(case)
