"""What one step passes to the next without the future map's rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.relay import keep_lens, keep_results, kept_lens, kept_results, store_kept_results


def algorithm(name: str) -> object:
    return SimpleNamespace(is_eagle=lambda: name == "eagle", is_standalone=lambda: name == "standalone")


class FutureMap:
    """A map of four rows."""

    def __init__(self) -> None:
        self.topk_index_buf = torch.zeros(4, dtype=torch.int64)
        self.spec_algo: object = algorithm("eagle")

    def stash(self, rows: torch.Tensor, results: Any) -> None:
        self.topk_index_buf[rows] = results.topk_index


class Fork(FutureMap):
    """A fork's map, which may read the rows."""


class Stream(torch.cpu.Stream):
    def __init__(self) -> None:
        super().__init__()
        self.waited_for: list[object] = []

    def wait_stream(self, stream: object) -> None:
        self.waited_for.append(stream)


def kept(future_map: Any) -> tuple[torch.Tensor, Any]:
    """Return rows and results that the map keeps."""
    rows, results = torch.tensor([1, 3]), SimpleNamespace(topk_index=torch.tensor([5, 7]))
    assert keep_results(future_map, rows, results, torch.ones(2))
    return rows, results


def test_kept_results_are_given_once() -> None:
    future_map: Any = FutureMap()
    rows, results = kept(future_map)
    assert kept_results(future_map, results, rows)
    assert future_map.topk_index_buf.tolist() == [0, 0, 0, 0]
    assert not kept_results(future_map, results, rows)


@pytest.mark.parametrize("other", ["rows", "results"])
def test_another_batchs_results_are_stored_for_it_to_read(other: str) -> None:
    future_map: Any = FutureMap()
    rows, results = kept(future_map)
    if other == "rows":
        rows = rows.clone()
    else:
        results = SimpleNamespace(topk_index=torch.tensor([8, 9]))
    assert not kept_results(future_map, results, rows)
    assert future_map.topk_index_buf.tolist() == [0, 5, 0, 7]


@pytest.mark.parametrize("same", [True, False])
def test_only_another_stream_waits_for_what_it_stores(same: bool) -> None:
    future_map: Any = FutureMap()
    future_map.new_seq_lens_buf, future_map.needs_cpu_seq_lens = future_map.topk_index_buf.clone(), False
    forward, scheduler = Stream(), Stream()
    with torch.cpu.stream(forward):
        rows, _ = kept(future_map)
        keep_lens(future_map, rows, torch.tensor([5, 7]))
    with torch.cpu.stream(forward if same else scheduler):
        store_kept_results(future_map)
        keep_lens(future_map, torch.tensor([2]), torch.tensor([9]))
        assert kept_lens(future_map, torch.tensor([1, 2, 3])).tolist() == [5, 9, 7]
    assert future_map.topk_index_buf.tolist() == [0, 5, 0, 7]
    assert [forward.waited_for, scheduler.waited_for] == [[], [] if same else [forward] * 2]


def test_a_map_without_the_flag_of_host_reads_has_its_rows_written() -> None:
    future_map: Any = SimpleNamespace(new_seq_lens_buf=torch.zeros(4, dtype=torch.int64))
    rows = torch.tensor([1, 3])
    keep_lens(future_map, rows, torch.tensor([5, 7]))
    assert future_map.new_seq_lens_buf.tolist() == [0, 5, 0, 7]
    assert kept_lens(future_map, rows).tolist() == [5, 7]


def test_a_forks_own_map_has_its_rows_written() -> None:
    future_map: Any = Fork()
    future_map.new_seq_lens_buf, future_map.needs_cpu_seq_lens = future_map.topk_index_buf.clone(), False
    rows, results = torch.tensor([1, 3]), SimpleNamespace(topk_index=torch.tensor([5, 7]))
    assert not keep_results(future_map, rows, results, torch.ones(2))
    keep_lens(future_map, rows, torch.tensor([5, 7]))
    assert future_map.new_seq_lens_buf.tolist() == [0, 5, 0, 7]


@pytest.mark.parametrize(("name", "stored"), [("eagle", 0), ("standalone", 0), ("dspark", 5), (None, 5)])
def test_what_workers_of_other_algorithms_return_is_stored(name: str | None, stored: int) -> None:
    # It may be a view of a buffer that the next step overwrites.
    future_map: Any = FutureMap()
    future_map.spec_algo = None if name is None else algorithm(name)
    future_map.new_seq_lens_buf, future_map.needs_cpu_seq_lens = future_map.topk_index_buf.clone(), False
    rows, results = torch.tensor([1, 3]), SimpleNamespace(topk_index=torch.tensor([5, 7]))
    assert keep_results(future_map, rows, results, torch.ones(2)) is not bool(stored)
    keep_lens(future_map, rows, torch.tensor([5, 7]))
    assert future_map.new_seq_lens_buf.tolist()[1] == stored


def test_a_map_that_reads_lengths_for_decodes_beside_a_prefill_has_its_rows_written() -> None:
    # An earlier version of the patch was in such trees too.
    future_map: Any = FutureMap()
    future_map.new_seq_lens_buf, future_map.needs_cpu_seq_lens = future_map.topk_index_buf.clone(), False
    future_map.resolve_mixed_spec_tails = lambda _: None
    rows = torch.tensor([1, 3])
    keep_lens(future_map, rows, torch.tensor([5, 7]))
    assert future_map.new_seq_lens_buf.tolist() == [0, 5, 0, 7]
    assert kept_lens(future_map, rows).tolist() == [5, 7]
