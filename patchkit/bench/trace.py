"""Count waits, copies and idle time of a decode step in a PyTorch trace of the scheduler."""

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

# Calls in which the host waits for the GPU.
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
# Calls that launch work on the GPU.
_LAUNCHING = re.compile(r"cu(da)?(Graph)?(Launch|Memcpy|Memset)\w*")
_HOST = frozenset({"cuda_runtime", "cuda_driver"})
_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
# Steps in which the profiler still sets up its buffers.
_WARM_UP = 4
# Batches of a profile without the kernel that marks a step: the prefill, and those at the ends.
_MISSED = 4


@dataclass(frozen=True)
class StepProfile:
    """Averages over the decode steps of one trace."""

    # Calls per step that launch work on the GPU, that wait for it, and copies per step from it to the host.
    launches: float
    synchronisations: float
    copies_to_host: float
    # The same by call or size and its operator.
    synchronisation_sources: dict[str, float]
    copy_sources: dict[str, float]
    # Time per step in which the GPU runs a kernel or copy, which the profiler does not lengthen.
    busy_milliseconds: float


def read_events(file: Path) -> list[Event]:
    """Return the events of a gzipped trace."""
    with gzip.open(file, "rt") as lines:
        found: list[Event] = json.load(lines)["traceEvents"]
    return found


def recurring(events: Iterable[Event], steps: int) -> list[float]:
    """Return when a kernel that runs once in each of about so many steps starts; empty if there is no such kernel.

    Of several such kernels it is the one that recurs most evenly, which a step's own work does.
    """
    kernels: dict[str, list[float]] = {}
    for event in events:
        if event.get("cat") == "kernel":
            kernels.setdefault(event["name"], []).append(event["ts"])
    found = [sorted(times) for times in kernels.values() if steps - _MISSED <= len(times) <= steps]
    return min(found, key=_unevenness, default=[])


def _unevenness(times: Sequence[float]) -> float:
    gaps = [after - before for before, after in pairwise(times[_WARM_UP:])]
    return statistics.pstdev(gaps) / statistics.mean(gaps)


def profile(events: Sequence[Event], steps_at: Sequence[float]) -> StepProfile | None:
    """Return the averages over the steps in a trace's events, which start at these times; None with too few steps."""
    spans = [event for event in events if event.get("ph") == "X"]
    starts = steps_at[_WARM_UP:]
    if len(starts) < 2:
        return None
    first, last, steps = starts[0], starts[-1], len(starts) - 1
    operators = _Operators(spans)

    calls = [event for event in spans if event.get("cat") in _HOST]
    by_copy = {call["args"]["correlation"]: call for call in calls if "correlation" in call.get("args", {})}
    within = [call for call in calls if first <= call["ts"] < last]
    waits = [call for call in within if call["name"] in SYNCHRONISING]
    launches = [call for call in within if _LAUNCHING.fullmatch(call["name"]) is not None]
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
    return StepProfile(
        launches=len(launches) / steps,
        synchronisations=len(waits) / steps,
        copies_to_host=len(copies) / steps,
        synchronisation_sources=_per_step(
            (f"{event['name']} in {operators.around(event)}" for event in waits), steps
        ),
        copy_sources=_per_step(
            (
                f"{event['args'].get('bytes', '?')} bytes in "
                f"{operators.around(by_copy.get(event['args'].get('correlation'), event))}"
                for event in copies
            ),
            steps,
        ),
        busy_milliseconds=sum(stop - start for start, stop in busy) / steps / 1000,
    )


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the union of (start, stop) spans, sorted."""
    union: list[Span] = []
    for start, stop in sorted(spans):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], stop))
        else:
            union.append((start, stop))
    return union


def _per_step(names: Iterable[str], steps: int) -> dict[str, float]:
    return {name: count / steps for name, count in Counter(names).most_common()}


class _Operators:
    """The operators of each thread, to find the caller of a call."""

    def __init__(self, spans: Iterable[Event]) -> None:
        self._threads: dict[Any, list[Event]] = {}
        for event in spans:
            if event.get("cat") == "cpu_op":
                self._threads.setdefault(event["tid"], []).append(event)
        for operators in self._threads.values():
            operators.sort(key=lambda event: event["ts"])

    def around(self, call: Event) -> str:
        """Return the innermost operator around the call, or "no operator"."""
        operators = self._threads.get(call["tid"], [])
        # Operators nest, so the innermost is the last one that started before the call and has not ended.
        for operator in reversed(operators[: bisect_right(operators, call["ts"], key=lambda o: o["ts"])]):
            if operator["ts"] + operator["dur"] >= call["ts"]:
                return str(operator["name"])
        return "no operator"
