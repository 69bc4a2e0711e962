"""Measure microseconds and launches of a repeated call, with contenders alternating."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import triton

from patchkit.bench.trace import SYNCHRONISING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PROFILED = 8
_CAPTURED = 32


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of measurements."""

    median: float
    lowest: float
    highest: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Return the spread of the values, None without values."""
        return cls(statistics.median(values), min(values), max(values), len(values)) if values else None


@dataclass(frozen=True)
class Timing:
    """Microseconds per call, one value per round."""

    # Between device events around all calls of a round: the slower of host and device.
    events: list[float]
    # Until the host is free again.
    host: list[float]


@dataclass(frozen=True)
class Activity:
    """The device activity of one call."""

    kernels: float
    copies: float
    synchronisations: float
    # Microseconds in which a kernel or copy is running.
    busy: float


def take_turns(calls: Mapping[str, Callable[[int], None]], rounds: int, repeats: int) -> dict[str, Timing]:
    """Time ``repeats`` calls of each contender per round."""
    timings = {name: Timing([], []) for name in calls}
    for call in calls.values():
        for number in range(10):
            call(number)
    for _ in range(rounds):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            began = time.perf_counter()
            start.record()
            for number in range(repeats):
                call(number)
            end.record()
            free = time.perf_counter()
            torch.cuda.synchronize()
            timings[name].events.append(start.elapsed_time(end) * 1000 / repeats)
            timings[name].host.append((free - began) * 1e6 / repeats)
    return timings


def device_time(call: Callable[[int], None]) -> float:
    """Return microseconds per call of the device alone: captured many times in one graph, and replayed."""
    call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(_CAPTURED):
            call(number)
    graph.replay()
    timing = take_turns({"graph": lambda _: graph.replay()}, rounds=5, repeats=5)["graph"]
    return min(timing.events) / _CAPTURED


def activity(call: Callable[[int], None]) -> Activity:
    """Count what a call does in a trace."""
    call(0)
    torch.cuda.synchronize()
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profiler:
        for number in range(_PROFILED):
            call(number)
        # The trace ends with a synchronisation that is not part of the call.
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return count_activity(events, _PROFILED)


def count_activity(events: list[dict[str, Any]], calls: int) -> Activity:
    """Return the averages over ``calls`` calls in a trace's events, without the final wait."""
    spans = [event for event in events if event.get("ph") == "X"]
    kernels = [event for event in spans if event.get("cat") == "kernel"]
    copies = [event for event in spans if event.get("cat") in {"gpu_memcpy", "gpu_memset"}]
    waits = sum(event["name"] in SYNCHRONISING - {"cudaDeviceSynchronize"} for event in spans)
    busy = sum(event["dur"] for event in kernels + copies)
    return Activity(len(kernels) / calls, len(copies) / calls, waits / calls, busy / calls)


@triton.jit
def _nothing(unused):  # type: ignore[no-untyped-def]
    pass


@dataclass(frozen=True)
class Ceilings:
    """The best figures of this machine."""

    # Bytes per microsecond of a large copy on the device, read and written; microseconds of an empty kernel.
    bytes_per_us: float
    empty_kernel_us: float

    @classmethod
    def measured(cls, device: torch.device) -> Ceilings:
        """Measure both."""
        source = torch.randint(256, (1 << 30,), dtype=torch.uint8, device=device)
        target = torch.empty_like(source)

        def copy(_: int) -> None:
            target.copy_(source)

        def launch(_: int) -> None:
            _nothing[(1,)](source)

        copied = take_turns({"copy": copy}, rounds=5, repeats=5)["copy"]
        empty = device_time(launch)
        return cls(2 * source.numel() / min(copied.events), empty)


def ratio(theirs: list[float], ours: list[float]) -> Spread | None:
    """Return the ratio of their time per round."""
    return Spread.of([long / short for long, short in zip(theirs, ours, strict=True)])
