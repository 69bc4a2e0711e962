from __future__ import annotations

import copy
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.kernels import INVALID, Around, arounds, launch
from support.trtllm_backends import (
    DIRT,
    MHA_MODES,
    Mode,
    Scenario,
    inputs,
    mha_backend,
    own_pages,
    replay_mha_by_steps,
    spec_info,
)
from torch.utils._python_dispatch import TorchDispatchMode

from patchkit.backends import paged
from patchkit.backends.flash_attention import fill_flash_attention
from patchkit.backends.metadata import Batch, Lengths, PageTables
from patchkit.backends.trtllm import fill_trtllm_mha

if TYPE_CHECKING:
    from collections.abc import Callable

CONTEXT = 300
PAGE_SIZES = (1, 16, 32, 64)
SHIPPED_BLOCKS = None
# So that a handful of requests and pages already take several turns of every loop: requests, pages, programs.
SMALL_BLOCKS = (4, 8, 6)


@st.composite
def scenarios(draw: st.DrawFn, modes: tuple[str, ...]) -> Scenario:
    stride = draw(st.integers(1, 5))
    step = draw(st.integers(0, 3))
    live = draw(st.lists(st.integers(0, CONTEXT - 5), max_size=12))
    padding = draw(st.integers(0 if live else 1, 5))
    return Scenario(
        mode=draw(st.sampled_from(modes)),
        lens=(*live, *[1] * padding),
        page_size=draw(st.sampled_from(PAGE_SIZES)),
        context=CONTEXT,
        dtype=draw(st.sampled_from([torch.int32, torch.int64])),
        swa=draw(st.booleans()),
        stride=stride,
        step=step,
        spare=draw(st.integers(0, 3)),
        seed=draw(st.integers(0, 1000)),
    )


def buffers(metadata: Any) -> dict[str, list[Any]]:
    return {name: value.tolist() for name, value in vars(metadata).items() if isinstance(value, torch.Tensor)}


def filled_mha(scenario: Scenario) -> SimpleNamespace:
    backend, (rows, lens) = mha_backend(scenario), inputs(scenario)
    spec = spec_info(scenario)
    fill_trtllm_mha(backend, len(scenario.lens), rows, lens, forward_mode=Mode(scenario.mode), spec_info=spec)
    return backend


def stepped_mha(scenario: Scenario) -> SimpleNamespace:
    backend, (rows, lens) = mha_backend(scenario), inputs(scenario)
    spec = spec_info(scenario)
    replay_mha_by_steps(backend, len(scenario.lens), rows, lens, forward_mode=Mode(scenario.mode), spec=spec)
    return backend


def outcome(backend: Any, scenario: Scenario) -> tuple[dict[str, list[Any]], list[list[Any]]]:
    """Return every element of every buffer, also of the rows that are not the graph's."""
    metadata = backend.decode_cuda_graph_metadata[len(scenario.lens)]
    return buffers(metadata), [table.tolist() for table in backend.tables]


def filled_by_kernel(batch: Batch, lengths: Lengths, tables: PageTables, around: Around = INVALID) -> None:
    from patchkit.backends.paged_kernel import fill_by_kernel

    launch(fill_by_kernel, batch, lengths, tables, around=around)


def outcome_by_kernel(
    scenario: Scenario, blocks: tuple[int, int, int] | None
) -> tuple[dict[str, list[Any]], list[list[Any]]]:
    """Return the outcome of the Triton kernel."""
    from patchkit.backends import paged_kernel

    shipped = (paged_kernel._BATCH_BLOCK, paged_kernel._PAGE_BLOCK, paged_kernel._PROGRAMS)
    by_torch = paged.fill_by_torch
    paged_kernel._BATCH_BLOCK, paged_kernel._PAGE_BLOCK, paged_kernel._PROGRAMS = blocks or shipped
    paged.fill_by_torch = filled_by_kernel
    try:
        return outcome(filled_mha(scenario), scenario)
    finally:
        paged_kernel._BATCH_BLOCK, paged_kernel._PAGE_BLOCK, paged_kernel._PROGRAMS = shipped
        paged.fill_by_torch = by_torch


@given(scenario=scenarios(MHA_MODES))
def test_mha_lengths_and_own_pages_are_those_of_the_unpatched_sequence(scenario: Scenario) -> None:
    bs = len(scenario.lens)
    ours, theirs = filled_mha(scenario), stepped_mha(scenario)
    actual, expected = ours.decode_cuda_graph_metadata[bs], theirs.decode_cuda_graph_metadata[bs]
    for name in ("cache_seqlens_int32", "cu_seqlens_k", "cu_seqlens_q"):
        assert getattr(actual, name).tolist() == getattr(expected, name).tolist(), name
    own = own_pages(theirs, bs)
    assert torch.equal(actual.page_table[own], expected.page_table[own])
    if scenario.swa:
        assert torch.equal(actual.swa_page_table[own], expected.swa_page_table[own])
    assert ours.forward_metadata is actual


@given(scenario=scenarios(MHA_MODES))
def test_columns_behind_a_request_s_last_page_and_rows_behind_the_graph_keep_what_they_hold(
    scenario: Scenario,
) -> None:
    bs = len(scenario.lens)
    backend = filled_mha(scenario)
    own = own_pages(backend, bs)
    for table in backend.tables:
        assert (table[:bs][~own] == DIRT).all()
        assert (table[bs:] == DIRT).all()
        assert (table[:bs][own] != DIRT).all()


@given(scenario=scenarios(MHA_MODES), blocks=st.sampled_from([SHIPPED_BLOCKS, SMALL_BLOCKS]))
def test_the_mha_kernel_writes_what_torch_writes(
    by_kernel: Callable[..., Any], scenario: Scenario, blocks: tuple[int, int, int] | None
) -> None:
    expected = outcome(filled_mha(scenario), scenario)
    assert by_kernel(outcome_by_kernel, scenario, blocks) == expected


class Fill(NamedTuple):
    """A fill of any kind. A row of the pool has ``slots``, and of a table ``pages``; ``spare`` rows lie behind."""

    lens: tuple[int, ...]
    slots: int
    page_size: int
    pages: int
    steps: int
    extra: int
    queries: str
    swa: bool
    wide: bool
    spare: int
    seed: int


@st.composite
def fills(draw: st.DrawFn) -> Fill:
    slots, page_size = draw(st.sampled_from([1, 40, 131])), draw(st.sampled_from([1, 2, 3, 64, 128, 256]))
    lens = tuple(draw(st.lists(st.integers(0, slots + 2), max_size=6)))
    return Fill(
        lens,
        slots,
        page_size,
        pages=draw(st.integers(0, -(-slots // page_size) + 2)),
        steps=draw(st.integers(1, 3)),
        extra=draw(st.integers(0, 4)),
        queries=draw(st.sampled_from(["", "stride", "accepted"])),
        swa=draw(st.booleans()),
        wide=draw(st.booleans()),
        spare=draw(st.integers(0, 1)),
        seed=draw(st.integers(0, 1000)),
    )


def every_element(fill: Fill, around: Around | None = None) -> list[list[Any]]:
    """Return every element of every buffer after a fill by torch or, if anything is ``around`` them, by the kernel."""
    size, room = len(fill.lens), len(fill.lens) + fill.spare
    generator = torch.Generator().manual_seed(fill.seed)
    kind = torch.int64 if fill.wide else torch.int32

    def integers(high: int, *shape: int, low: int = 0) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator)

    def table(rows: int) -> torch.Tensor:
        # A single row is contiguous wherever the next one would begin.
        return torch.full((rows, fill.pages + 3 * (rows == 1)), DIRT, dtype=torch.int32)[:, : fill.pages]

    # The same for a pool of one row.
    rows = 1 if fill.seed % 2 else 9
    pool = integers(4 * fill.slots, rows, fill.slots + 5 * (rows == 1)).to(torch.int32)[:, : fill.slots]
    batch = Batch(
        torch.tensor([*fill.lens, *[DIRT] * fill.spare], dtype=kind),
        torch.cat([integers(rows, size), torch.full((fill.spare,), DIRT)]).to(kind),
        size,
        fill.extra,
    )
    shape = (room,) if fill.steps == 1 else (fill.steps, room)
    lengths = Lengths(
        keys=torch.full(shape, DIRT, dtype=torch.int32),
        key_offsets=torch.full((*shape[:-1], room + 1), DIRT, dtype=torch.int32),
        query_offsets=torch.full((room + 1,), DIRT, dtype=torch.int32) if fill.queries else None,
        query_stride=3,
        accepted=integers(5, room).to(kind) if fill.queries == "accepted" else None,
        steps=fill.steps,
    )
    tables = PageTables(
        pool,
        fill.page_size,
        table(room),
        integers(fill.slots, 4 * fill.slots, low=-1) if fill.swa else None,
        table(room) if fill.swa else None,
    )
    if around is None:
        paged.fill_by_torch(batch, lengths, tables)
    else:
        filled_by_kernel(batch, lengths, tables, around)
    written = (lengths.keys, lengths.key_offsets, lengths.query_offsets, tables.pages, tables.swa_pages)
    # Of a table's memory, also what lies behind its columns.
    return [each.untyped_storage().tolist() for each in written if each is not None]


@given(fill=fills(), around=arounds)
def test_the_kernel_fills_what_torch_fills(by_kernel: Callable[..., Any], fill: Fill, around: Around) -> None:
    assert by_kernel(every_element, fill, around) == every_element(fill)


@pytest.mark.parametrize("size", [1, 8, 512, 513])
def test_the_kernel_covers_a_batch_of_any_size(by_kernel: Callable[..., Any], size: int) -> None:
    lens = tuple((7 * request) % (CONTEXT - 5) for request in range(size))
    scenario = Scenario("extend v1", lens, page_size=16, context=CONTEXT)
    expected = outcome(filled_mha(scenario), scenario)
    assert by_kernel(outcome_by_kernel, scenario, SHIPPED_BLOCKS) == expected


@pytest.mark.parametrize("swa", [False, True])
def test_the_kernel_covers_more_pages_than_one_block(by_kernel: Callable[..., Any], swa: bool) -> None:
    scenario = Scenario("verify", (1, 1500, 0, 512, 513, 1024), page_size=1, context=1510, swa=swa)
    expected = outcome(filled_mha(scenario), scenario)
    assert by_kernel(outcome_by_kernel, scenario, SHIPPED_BLOCKS) == expected


@pytest.mark.parametrize("page_size", [1, 2, 16])
def test_the_kernel_gives_what_has_no_counterpart_no_page(
    by_kernel: Callable[..., Any], page_size: int
) -> None:
    scenario = Scenario("decode", (1, 40, 17), page_size=page_size, context=CONTEXT, swa=True, unmapped=True)
    backend = filled_mha(scenario)
    assert (backend.tables[1][0, :1] == -1).all()
    expected = outcome(backend, scenario)
    assert by_kernel(outcome_by_kernel, scenario, SHIPPED_BLOCKS) == expected


def test_pages_beyond_the_table_s_width_are_left_out(by_kernel: Callable[..., Any]) -> None:
    scenario = Scenario("verify", (CONTEXT, CONTEXT - 1, 3), page_size=1, context=CONTEXT, swa=True)
    metadata = filled_mha(scenario).forward_metadata
    assert metadata.cache_seqlens_int32.tolist() == [CONTEXT + 4, CONTEXT + 3, 7]
    assert (metadata.page_table[:2] != DIRT).all()
    expected = outcome(filled_mha(scenario), scenario)
    assert by_kernel(outcome_by_kernel, scenario, SMALL_BLOCKS) == expected


def unused_lengths(size: int) -> Lengths:
    keys, key_offsets = (torch.empty(each, dtype=torch.int32) for each in (size, size + 1))
    return Lengths(keys, key_offsets)


def padded_table(call: Any) -> list[int]:
    """Return a row with more columns than the request has pages, whose length is more than its slots."""
    pages = torch.full((1, 6), DIRT, dtype=torch.int32)
    slots = torch.arange(32, dtype=torch.int32)[None, :]
    batch = Batch(torch.tensor([31]), torch.tensor([0]), 1, 4)
    call(batch, unused_lengths(1), PageTables(slots, 8, pages))
    return pages[0].tolist()


def test_pages_beyond_the_request_s_slots_are_left_out(by_kernel: Callable[..., Any]) -> None:
    expected = [0, 1, 2, 3, DIRT, DIRT]
    assert padded_table(paged.fill_by_torch) == expected
    assert by_kernel(padded_table, filled_by_kernel) == expected


def negative_slots(call: Any) -> tuple[list[int], list[int]]:
    pages, swa_pages = (torch.full((1, 4), DIRT, dtype=torch.int32) for _ in range(2))
    slots = torch.tensor([[-1, -17, 40, 3]], dtype=torch.int32).repeat_interleave(16, dim=1)
    mapping = torch.arange(64).flip(0)
    mapping[3] = -1
    tables = PageTables(slots, 16, pages, mapping, swa_pages)
    call(Batch(torch.tensor([64]), torch.tensor([0]), 1, 0), unused_lengths(1), tables)
    return pages[0].tolist(), swa_pages[0].tolist()


def test_a_negative_slot_is_on_a_negative_page_and_has_no_counterpart(
    by_kernel: Callable[..., Any],
) -> None:
    expected = ([-1, -2, 2, 0], [-1, -1, 1, -1])
    assert negative_slots(paged.fill_by_torch) == expected
    assert by_kernel(negative_slots, filled_by_kernel) == expected


def first_offsets_and_stale_slots(call: Any) -> tuple[list[int], list[int], list[int]]:
    keys, key_offsets, query_offsets = (torch.full((size,), DIRT, dtype=torch.int32) for size in (1, 2, 2))
    pages, swa_pages = (torch.full((1, 2), DIRT, dtype=torch.int32) for _ in range(2))
    slots = torch.tensor([[8, DIRT]], dtype=torch.int32).repeat_interleave(4, dim=1)
    lengths = Lengths(keys=keys, key_offsets=key_offsets, query_offsets=query_offsets, query_stride=3)
    tables = PageTables(slots, 4, pages, torch.arange(16), swa_pages)
    call(Batch(torch.tensor([4]), torch.tensor([0]), 1, 0), lengths, tables)
    return key_offsets.tolist(), query_offsets.tolist(), swa_pages[0].tolist()


def test_offsets_begin_at_0_and_a_stale_slot_is_not_looked_up(by_kernel: Callable[..., Any]) -> None:
    expected = ([0, 4], [0, 3], [2, DIRT])
    assert first_offsets_and_stale_slots(paged.fill_by_torch) == expected
    assert by_kernel(first_offsets_and_stale_slots, filled_by_kernel) == expected


def steps_filled(call: Any, size: int, steps: int) -> list[list[int]]:
    """Return lengths, their sums and the table of several steps of one draft."""
    width = size + 3
    keys, offsets = (torch.full((steps, width + more), DIRT, dtype=torch.int32) for more in (0, 1))
    pages = torch.full((width, 20), DIRT, dtype=torch.int32)
    slots = torch.arange(40 * 76, dtype=torch.int32).reshape(40, 76)
    lens = (torch.arange(width) * 7) % 64
    rows = torch.arange(width).flip(0)
    call(
        Batch(lens, rows, size, 1),
        Lengths(keys=keys, key_offsets=offsets, steps=steps),
        PageTables(slots, 4, pages),
    )
    return [*keys.tolist(), *offsets.tolist(), *pages.tolist()]


def steps_filled_by_kernel(size: int, steps: int, blocks: tuple[int, int, int]) -> list[list[int]]:
    from patchkit.backends import paged_kernel

    shipped = (paged_kernel._BATCH_BLOCK, paged_kernel._PAGE_BLOCK, paged_kernel._PROGRAMS)
    paged_kernel._BATCH_BLOCK, paged_kernel._PAGE_BLOCK, paged_kernel._PROGRAMS = blocks
    try:
        return steps_filled(filled_by_kernel, size, steps)
    finally:
        paged_kernel._BATCH_BLOCK, paged_kernel._PAGE_BLOCK, paged_kernel._PROGRAMS = shipped


def step_by_step(batch: Batch, lengths: Lengths, tables: PageTables) -> None:
    for step in range(lengths.steps):
        paged.fill_by_torch(
            batch._replace(extra=batch.extra + step),
            Lengths(lengths.keys[step], lengths.key_offsets[step]),
            tables,
        )


@pytest.mark.parametrize(("size", "steps"), [(1, 1), (1, 2), (5, 3), (9, 4)])
def test_several_steps_are_filled_at_once_as_one_after_the_other(
    by_kernel: Callable[..., Any], size: int, steps: int
) -> None:
    expected = steps_filled(step_by_step, size, steps)
    assert steps_filled(paged.fill_by_torch, size, steps) == expected
    assert by_kernel(steps_filled_by_kernel, size, steps, SMALL_BLOCKS) == expected


def test_lengths_may_be_rewritten_in_place_where_nothing_is_added() -> None:
    scenario = Scenario("decode", (5, 70, 1), dtype=torch.int32)
    backend, (rows, lens) = mha_backend(scenario), inputs(scenario)
    metadata = backend.decode_cuda_graph_metadata[3]
    metadata.cache_seqlens_int32 = lens[:3]
    fill_trtllm_mha(backend, 3, rows, lens, forward_mode=Mode("decode"), spec_info=None)
    assert lens[:3].tolist() == [5, 70, 1]
    assert metadata.cu_seqlens_k.tolist() == [0, 5, 75, 76]


@pytest.mark.parametrize("mode", MHA_MODES)
def test_the_longest_key_is_bounded_by_the_context_and_not_looked_up(mode: str) -> None:
    assert filled_mha(Scenario(mode, (5, 70, 1))).forward_metadata.max_seq_len_k == CONTEXT


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("decode", 1), ("draft decode", 1), ("verify", 4), ("extend v1", 4), ("extend v2", 4)],
)
def test_the_longest_query_stays_the_capture_s(mode: str, expected: int) -> None:
    assert filled_mha(Scenario(mode, (5, 70, 1), stride=4)).forward_metadata.max_seq_len_q == expected


@pytest.mark.parametrize(("named", "expected"), [(2, 2), (0, 4), (-1, 4)])
def test_a_v2_draft_extend_may_name_its_stride(named: int, expected: int) -> None:
    scenario = Scenario("extend v2", (5, 70, 1), stride=4)
    backend, (rows, lens) = mha_backend(scenario), inputs(scenario)
    spec = SimpleNamespace(num_tokens_per_req=named)
    fill_trtllm_mha(backend, 3, rows, lens, forward_mode=Mode("extend v2"), spec_info=spec)
    assert backend.forward_metadata.max_seq_len_q == expected
    assert backend.forward_metadata.cu_seqlens_q.tolist() == [0, expected, 2 * expected, 3 * expected]


def plain_flash_attention(backend: Any) -> Any:
    """Return a FlashAttention backend with the same buffers."""
    return SimpleNamespace(**vars(backend), topk=1)


@pytest.mark.parametrize("fill", [fill_trtllm_mha, fill_flash_attention])
def test_what_was_accepted_may_have_the_name_that_it_had_in_older_trees(fill: Any) -> None:
    scenario = Scenario("extend v1", (5, 70, 1), stride=4)
    backend, (rows, lens) = mha_backend(scenario), inputs(scenario)
    if fill is fill_flash_attention:
        backend = plain_flash_attention(backend)
    spec = SimpleNamespace(num_accepted_tokens=torch.tensor([2, 1, 4]))
    fill(backend, 3, rows, lens, forward_mode=Mode("extend v1"), spec_info=spec)
    assert backend.forward_metadata.cu_seqlens_q.tolist() == [0, 2, 3, 7]


@pytest.mark.parametrize("mode", ["decode", "draft decode", "verify"])
def test_query_offsets_that_never_change_are_not_written(mode: str) -> None:
    scenario = Scenario(mode, (5, 70, 1))
    backend, (rows, lens) = mha_backend(scenario), inputs(scenario)
    backend.decode_cuda_graph_metadata[3].cu_seqlens_q.fill_(DIRT)
    fill_trtllm_mha(backend, 3, rows, lens, forward_mode=Mode(mode), spec_info=spec_info(scenario))
    assert (backend.forward_metadata.cu_seqlens_q == DIRT).all()


class NoHostRead(TorchDispatchMode):
    """Raises where a number leaves a tensor for the host: on a GPU the host would wait there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise AssertionError("a number was read back to the host")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", MHA_MODES)
def test_no_number_is_read_back(mode: str) -> None:
    scenario = Scenario(mode, (5, 70, 1), swa=True)
    with NoHostRead():
        backend, (rows, lens) = mha_backend(scenario), inputs(scenario)
        bs, forward_mode = 3, Mode(mode)
    spec = spec_info(scenario)
    with pytest.raises(AssertionError, match="read back"), NoHostRead():
        replay_mha_by_steps(copy.deepcopy(backend), bs, rows, lens, forward_mode=forward_mode, spec=spec)
    with NoHostRead():
        fill_trtllm_mha(backend, bs, rows, lens, forward_mode=forward_mode, spec_info=spec)


def test_lengths_on_a_gpu_go_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    kernel = SimpleNamespace(fill_by_kernel=lambda *args: calls.append(args))
    monkeypatch.setitem(sys.modules, "patchkit.backends.paged_kernel", kernel)
    batch = Batch(SimpleNamespace(is_cuda=True), torch.zeros(1), 1, 0)  # type: ignore[arg-type]
    tables = PageTables(torch.zeros(1, 1), 1, torch.zeros(1, 1))
    lengths = unused_lengths(1)
    paged.fill(batch, lengths, tables)
    assert calls == [(batch, lengths, tables)]
