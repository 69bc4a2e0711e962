"""Compute the figures of a scenario's runs: times between launches, rates, and log probabilities."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from patchkit.bench.figures import Reply

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Run:
    """One run of a scenario in one engine."""

    seconds: float
    outputs: tuple[Reply, ...]
    # Milliseconds between launches of decode steps while all requests were running.
    step_milliseconds: tuple[float, ...]


def read_run(reply: dict[str, Any]) -> Run:
    """Return the run in an engine's reply."""
    outputs = tuple(
        Reply(tuple(entry["tokens"]), entry["finish"], entry["steps"], tuple(entry["logprobs"]))
        for entry in reply["outputs"]
    )
    return Run(reply["seconds"], outputs, step_milliseconds(reply["launches"]))


def step_milliseconds(launches: Sequence[dict[str, Any]]) -> tuple[float, ...]:
    """Return the times between launches of consecutive decode steps at the run's largest batch.

    ``launches`` are dictionaries with ``at`` (nanoseconds), ``decode`` and ``size``, oldest first.
    """
    full = max((launch["size"] for launch in launches if launch["decode"]), default=0)
    return tuple(
        (after["at"] - before["at"]) / 1e6
        for before, after in pairwise(launches)
        if before["decode"] and after["decode"] and before["size"] == after["size"] == full
    )


def milliseconds_per_step(runs: Sequence[Run], window: slice = slice(None)) -> list[float]:
    """Return each run's median step time, without runs that have no step.

    ``window`` selects a range of a run's steps.
    """
    steps = [run.step_milliseconds[window] for run in runs]
    return [statistics.median(chosen) for chosen in steps if chosen]


def output_rates(runs: Sequence[Run]) -> list[float]:
    """Return each run's output tokens per second, from its first request to its last answer."""
    return [sum(len(output.tokens) for output in run.outputs) / run.seconds for run in runs]


def largest_logprob_difference(expected: Sequence[Reply], actual: Sequence[Reply]) -> float | None:
    """Return the largest difference of log probabilities at the same position; None without any."""
    differences = [
        abs(mine - theirs)
        for one, other in zip(expected, actual, strict=True)
        for theirs, mine in zip(one.logprobs, other.logprobs, strict=False)
    ]
    return max(differences, default=None)


def distinct_tokens(outputs: Sequence[Reply]) -> int:
    """Return the number of distinct tokens: few mean a cycle, which can hide an error."""
    return len({token for output in outputs for token in output.tokens})
