"""Compute figures: paired ratios with their spread, and comparisons of tokens."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"(?P<indent>\s*)(?P<error>[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b.*)")
_COMPLAINT = re.compile(
    r"\b(error|illegal|killed|exception|out of memory|segmentation fault)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Output:
    """The result of one request."""

    tokens: tuple[int, ...]
    finish: str
    # The number of its verify steps.
    steps: int
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """One run of a scenario in one engine."""

    seconds: float
    outputs: tuple[Output, ...]
    # Milliseconds between launches of decode steps while all requests were running.
    step_milliseconds: tuple[float, ...]


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
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Difference:
    """The first token, in order of requests, that differs from the expected output."""

    request: int
    position: int
    # None: the output ends there.
    expected: int | None
    got: int | None
    # The number of requests that differ, and of all requests.
    requests: int
    of: int


def read_run(reply: dict[str, Any]) -> Run:
    """Return the run in an engine's reply."""
    outputs = tuple(
        Output(tuple(entry["tokens"]), entry["finish"], entry["steps"], tuple(entry["logprobs"]))
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


def pair_ratios(reference: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the ratio of each measurement to the reference's last one before it.

    With at least six pairs, the true median ratio is between the lowest and the highest with 97 % confidence (sign
    test).
    """
    return [mine / theirs for theirs, mine in zip(reference, other, strict=False)]


def first_difference(expected: Sequence[Output], actual: Sequence[Output]) -> Difference | None:
    """Return the first difference in a token or in the reason of the end; None if the outputs are identical."""
    pairs = list(zip(expected, actual, strict=True))
    differing = [
        i for i, (one, other) in enumerate(pairs) if (one.tokens, one.finish) != (other.tokens, other.finish)
    ]
    if not differing:
        return None
    one, other = pairs[differing[0]]
    common = min(len(one.tokens), len(other.tokens))
    position = next((i for i in range(common) if one.tokens[i] != other.tokens[i]), common)
    return Difference(
        request=differing[0],
        position=position,
        expected=one.tokens[position] if position < len(one.tokens) else None,
        got=other.tokens[position] if position < len(other.tokens) else None,
        requests=len(differing),
        of=len(pairs),
    )


def largest_logprob_difference(expected: Sequence[Output], actual: Sequence[Output]) -> float | None:
    """Return the largest difference of log probabilities at the same position; None without any."""
    differences = [
        abs(mine - theirs)
        for one, other in zip(expected, actual, strict=True)
        for theirs, mine in zip(one.logprobs, other.logprobs, strict=False)
    ]
    return max(differences, default=None)


def accept_length(outputs: Sequence[Output]) -> float | None:
    """Return the tokens per request and decode step; None without a step.

    The first token of each request comes from the prefill and does not count.
    """
    stepped = [output for output in outputs if output.steps and output.tokens]
    steps = sum(output.steps for output in stepped)
    return sum(len(output.tokens) - 1 for output in stepped) / steps if steps else None


def distinct_tokens(outputs: Sequence[Output]) -> int:
    """Return the number of distinct tokens: few mean a cycle, which can hide an error."""
    return len({token for output in outputs for token in output.tokens})


def first_error(log: str) -> str | None:
    """Return the line of a log with the first error: that of an exception, else the first with an error's words."""
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if not line.endswith(_TRACEBACK):
            continue
        indent = len(line) - len(line.lstrip())
        for below in lines[number + 1 :]:
            found = _RAISED.fullmatch(below)
            if found and len(found["indent"]) <= indent:
                return found["error"]
    return next((line.strip() for line in lines if _COMPLAINT.search(line)), None)
