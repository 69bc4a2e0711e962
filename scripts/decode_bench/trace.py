"""What a decode step waits for, copies and leaves idle, counted in a PyTorch trace of the scheduler."""

from __future__ import annotations

import gzip
import json
import re
import statistics
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Event = dict[str, Any]
Span = tuple[float, float]

# Calls after which the host goes on only when the GPU has caught up.
SYNCHRONISING = frozenset(
    {
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "cudaMemcpy",
        "cudaStreamSynchronize",
        "cuCtxSynchronize",
        "cuEventSynchronize",
        "cuStreamSynchronize",
    }
)
# Calls that give the GPU something to do.
_LAUNCHING = re.compile(r"cu(da)?(Graph)?(Launch|Memcpy|Memset)\w*")
_HOST = frozenset({"cuda_runtime", "cuda_driver"})
_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
# Steps in which the profiler itself still sets up its buffers.
_WARM_UP = 4
# Microseconds; kernels closer than this are one stretch of a timeline.
_JOIN = 1.0


@dataclass(frozen=True)
class StepProfile:
    """Averages over the decode steps of one trace; times in milliseconds unless the name says otherwise."""

    steps: int
    milliseconds: float
    # Calls a step that give the GPU something to do, and the same by call and operator.
    launches: float
    launch_sources: dict[str, float]
    # Calls a step that wait for the GPU, and copies a step from the GPU to the host.
    synchronisations: float
    copies_to_host: float
    # The same by call or size and the operator that made it.
    synchronisation_sources: dict[str, float]
    copy_sources: dict[str, float]
    # Time a step in which the GPU runs at least one kernel or copy. Unlike the step itself, the profiler does
    # not stretch it.
    busy_milliseconds: float
    gaps: float
    longest_gap_us: float
    # One step, the middle one by duration: (start, duration) in microseconds after its launch began.
    timeline_gpu: list[Span]
    timeline_waits: list[Span]

    @property
    def window(self) -> slice:
        """Where these steps are among a run's, whose profile begins with the run."""
        return slice(_WARM_UP, _WARM_UP + self.steps)


def read_profile(file: Path, step: str) -> StepProfile | None:
    """Return the profile in a gzipped trace whose steps are events named ``step``; None if too few."""
    with gzip.open(file, "rt") as lines:
        return profile(json.load(lines)["traceEvents"], step)


def profile(events: Sequence[Event], step: str) -> StepProfile | None:
    """Return the averages over the steps in a trace's events; None if there are too few steps."""
    spans = [event for event in events if event.get("ph") == "X"]
    starts = sorted(
        event["ts"] for event in spans if event["name"] == step and event.get("cat") == "user_annotation"
    )[_WARM_UP:]
    if len(starts) < 2:
        return None
    first, last, steps = starts[0], starts[-1], len(starts) - 1
    operators = _Operators(spans)

    calls = {
        event["args"]["correlation"]: event
        for event in spans
        if event.get("cat") in _HOST and "correlation" in event.get("args", {})
    }
    waits = [
        event
        for event in spans
        if event.get("cat") in _HOST and event["name"] in SYNCHRONISING and first <= event["ts"] < last
    ]
    launches = [
        event
        for event in spans
        if event.get("cat") in _HOST
        and first <= event["ts"] < last
        and _LAUNCHING.fullmatch(event["name"]) is not None
    ]
    copies = [
        event
        for event in spans
        if event.get("cat") == "gpu_memcpy" and "DtoH" in event["name"] and first <= event["ts"] < last
    ]
    busy = merged(
        (max(event["ts"], first), min(event["ts"] + event["dur"], last))
        for event in spans
        if event.get("cat") in _GPU and event["ts"] < last and event["ts"] + event["dur"] > first
    )
    gaps = [after[0] - before[1] for before, after in pairwise(busy)]

    durations = [after - before for before, after in pairwise(starts)]
    middle = sorted(range(steps), key=durations.__getitem__)[steps // 2]
    begin, end = starts[middle], starts[middle + 1]
    return StepProfile(
        steps=steps,
        milliseconds=statistics.median(durations) / 1000,
        launches=len(launches) / steps,
        launch_sources=_per_step(
            (f"{event['name']} in {operators.around(event)}" for event in launches), steps
        ),
        synchronisations=len(waits) / steps,
        copies_to_host=len(copies) / steps,
        synchronisation_sources=_per_step(
            (f"{event['name']} in {operators.around(event)}" for event in waits), steps
        ),
        copy_sources=_per_step(
            (
                f"{event['args'].get('bytes', '?')} bytes in "
                f"{operators.around(calls.get(event['args'].get('correlation'), event))}"
                for event in copies
            ),
            steps,
        ),
        busy_milliseconds=sum(stop - start for start, stop in busy) / steps / 1000,
        gaps=len(gaps) / steps,
        longest_gap_us=max(gaps, default=0.0),
        timeline_gpu=_within(merged(busy, _JOIN), begin, end),
        timeline_waits=_within(
            sorted((event["ts"], event["ts"] + event["dur"]) for event in waits), begin, end
        ),
    )


def merged(spans: Iterable[Span], join: float = 0.0) -> list[Span]:
    """Return (start, stop) spans as their union, sorted; those at most ``join`` apart become one."""
    union: list[Span] = []
    for start, stop in sorted(spans):
        if union and start <= union[-1][1] + join:
            union[-1] = (union[-1][0], max(union[-1][1], stop))
        else:
            union.append((start, stop))
    return union


def _within(spans: Iterable[Span], begin: float, end: float) -> list[Span]:
    clipped = ((max(start, begin), min(stop, end)) for start, stop in spans if start < end and stop > begin)
    return [(round(start - begin, 1), round(stop - start, 1)) for start, stop in clipped]


def _per_step(names: Iterable[str], steps: int) -> dict[str, float]:
    return {name: count / steps for name, count in Counter(names).most_common()}


class _Operators:
    """The operators of each thread, to say which one a call was made from."""

    def __init__(self, spans: Iterable[Event]) -> None:
        self._threads: dict[Any, list[Event]] = {}
        for event in spans:
            if event.get("cat") == "cpu_op":
                self._threads.setdefault(event["tid"], []).append(event)
        for operators in self._threads.values():
            operators.sort(key=lambda event: event["ts"])

    def around(self, call: Event) -> str:
        """Name the innermost operator that the call happened in; "no operator" if there is none."""
        operators = self._threads.get(call["tid"], [])
        # Operators nest, so the last one that began before the call and has not ended is the innermost.
        for operator in reversed(operators[: bisect_right(operators, call["ts"], key=lambda o: o["ts"])]):
            if operator["ts"] + operator["dur"] >= call["ts"]:
                return str(operator["name"])
        return "no operator"
