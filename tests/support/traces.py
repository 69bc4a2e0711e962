"""Traces as PyTorch's profiler writes them, of steps of equal length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from patchkit.bench import trace


@dataclass
class Trace:
    """Ten steps of 100 microseconds, each with one kernel; the first four are the profiler's warm-up."""

    events: list[dict[str, Any]]

    @classmethod
    def of_steps(cls, count: int = 10, kernel: float = 80.0) -> Trace:
        events = []
        for i in range(count):
            events += [
                cls.span("step", "user_annotation", 100.0 * i, 60),
                cls.span("gemm", "kernel", 100.0 * i + 10, kernel),
            ]
        return cls(events)

    @staticmethod
    def span(name: str, cat: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "tid": tid, "args": args}

    def add(self, *arguments: Any, **options: Any) -> None:
        self.events.append(self.span(*arguments, **options))

    def starts(self) -> list[float]:
        return [event["ts"] for event in self.events if event["name"] == "step"]

    def profile(self) -> trace.StepProfile:
        found = trace.profile(self.events, self.starts())
        assert found is not None
        return found
