"""What a trace says of a decode step: waits, launches, copies, and how long the GPU is busy."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces import Trace

from patchkit.bench import trace

if TYPE_CHECKING:
    from pathlib import Path


def test_a_trace_without_waits_counts_none() -> None:
    found = Trace.of_steps().profile()
    assert (found.synchronisations, found.copies_to_host) == (0, 0)
    assert found.busy_milliseconds == pytest.approx(0.08)


def test_waits_are_counted_per_step_with_the_innermost_operator_that_made_them() -> None:
    steps = Trace.of_steps()
    for i in range(10):
        steps.add("aten::item", "cpu_op", 100 * i + 1, 20)
        steps.add("aten::_local_scalar_dense", "cpu_op", 100 * i + 2, 15)
        steps.add("aten::empty", "cpu_op", 100 * i + 3, 1)
        steps.add("cudaStreamSynchronize", "cuda_runtime", 100 * i + 6, 5)
    steps.add("cudaEventSynchronize", "cuda_runtime", 450, 5)
    found = steps.profile()
    assert found.synchronisations == pytest.approx(1.2)
    assert found.synchronisation_sources == {
        "cudaStreamSynchronize in aten::_local_scalar_dense": 1.0,
        "cudaEventSynchronize in no operator": 0.2,
    }


def test_calls_that_give_the_gpu_work_are_launches() -> None:
    steps = Trace.of_steps()
    for name in (
        "cudaLaunchKernel",
        "cuLaunchKernelEx",
        "cudaGraphLaunch",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
    ):
        steps.add(name, "cuda_driver" if name.startswith("cuL") else "cuda_runtime", 620, 1)
    for name in ("cudaEventRecord", "cudaStreamWaitEvent", "cudaGraphInstantiate", "cudaStreamSynchronize"):
        steps.add(name, "cuda_runtime", 620, 1)
    steps.add("cudaLaunchKernel", "cpu_op", 620, 1)
    steps.add("cudaLaunchKernel", "cuda_runtime", 50, 1)
    steps.add("aten::copy_", "cpu_op", 700, 5)
    steps.add("cudaMemcpyAsync", "cuda_runtime", 701, 1)
    found = steps.profile()
    assert found.launches == pytest.approx(1.2)


def test_launches_and_queries_are_no_waits() -> None:
    steps = Trace.of_steps()
    for name in ("cudaGraphLaunch", "cudaEventQuery", "cudaStreamWaitEvent", "cudaMemcpyAsync"):
        steps.add(name, "cuda_runtime", 620, 1)
    steps.add("cudaStreamSynchronize", "cpu_op", 620, 1)
    assert steps.profile().synchronisations == 0


def test_only_copies_to_the_host_are_counted_with_their_size_and_operator() -> None:
    steps = Trace.of_steps()
    steps.add("aten::copy_", "cpu_op", 600, 9)
    steps.add("cudaMemcpyAsync", "cuda_runtime", 602, 2, correlation=7)
    steps.add("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", 630, 2, tid=70, correlation=7, bytes=64)
    steps.add("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 640, 2, tid=70, correlation=8, bytes=64)
    found = steps.profile()
    assert found.copies_to_host == 0.2
    assert found.copy_sources == {"64 bytes in aten::copy_": 0.2}


def test_what_happens_before_the_steps_or_in_the_last_is_not_counted() -> None:
    steps = Trace.of_steps()
    for ts in (50.0, 390.0, 900.0, 950.0):
        steps.add("cudaDeviceSynchronize", "cuda_runtime", ts, 3)
    assert steps.profile().synchronisations == 0


def test_kernels_that_overlap_keep_the_gpu_busy_once() -> None:
    steps = Trace.of_steps()
    for i in range(10):
        steps.add("memset", "gpu_memset", 100 * i + 50, 45, tid=71)
    assert steps.profile().busy_milliseconds == pytest.approx(0.085)


def test_a_kernel_that_outlasts_the_window_counts_up_to_its_end() -> None:
    assert Trace.of_steps(kernel=300.0).profile().busy_milliseconds == pytest.approx(0.1)


def test_too_few_steps_give_no_profile(tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    with gzip.open(file, "wt") as out:
        json.dump({"traceEvents": Trace.of_steps(5).events}, out)
    events = trace.read_events(file)
    assert trace.profile(events, Trace(events).starts()) is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=12))
def test_merged_spans_cover_the_same_points_and_never_touch(pairs: list[tuple[int, int]]) -> None:
    spans = [(float(start), float(start + length)) for start, length in pairs]
    union = trace.merged(spans)
    points = {point for start, length in pairs for point in range(start, start + length)}
    assert {p for start, stop in union for p in range(int(start), int(stop))} == points
    assert all(before[1] < after[0] for before, after in pairwise(union))


def test_without_annotations_a_kernel_that_runs_once_in_each_step_marks_the_steps() -> None:
    steps = Trace([])
    for i in range(10):
        # Of every layer; of each step, but late in every second one; and of the step alone.
        for layer in range(8):
            steps.add("layer", "kernel", 100 * i + layer, 1)
        steps.add("late", "kernel", 100 * i + 20 + i % 2 * 50, 1)
        steps.add("verify", "kernel", 100 * i + 90, 1)
        steps.add("cudaStreamSynchronize", "cuda_runtime", 100 * i + 95, 1)
    steps.add("prefill", "kernel", 0, 1)
    marks = trace.recurring(steps.events, 11)
    assert marks == [100.0 * i + 90 for i in range(10)]
    found = trace.profile(steps.events, marks)
    assert found is not None
    assert found.synchronisations == 1.0


def test_where_no_kernel_runs_once_in_each_step_there_is_no_profile() -> None:
    steps = Trace([Trace.span("layer", "kernel", float(i), 1) for i in range(80)])
    assert trace.recurring(steps.events, 28) == []
    assert trace.profile(steps.events, []) is None
