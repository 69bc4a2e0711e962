"""Figures that may be believed: pair by pair, with their spread, and tokens compared one by one."""

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
    """What one request gave."""

    tokens: tuple[int, ...]
    finish: str
    # Verify steps it took part in.
    steps: int
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """One pass of a scenario through one engine."""

    seconds: float
    outputs: tuple[Output, ...]
    # Milliseconds from each decode step's launch to the next one's, while all requests ran.
    step_milliseconds: tuple[float, ...]


@dataclass(frozen=True)
class Spread:
    """A handful of measurements."""

    median: float
    lowest: float
    highest: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Return the spread of the values, None if there are none."""
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values), len(values))


@dataclass(frozen=True)
class Difference:
    """The first token, in order of requests, in which an output is not the expected one."""

    request: int
    position: int
    # None: the output ended there.
    expected: int | None
    got: int | None
    # Requests that differ at all, of how many.
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
    """Return the times between launches of decode steps in direct succession, at the run's largest batch.

    ``launches`` are dictionaries with ``at`` (nanoseconds), ``decode`` and ``size``, oldest first.
    """
    full = max((launch["size"] for launch in launches if launch["decode"]), default=0)
    return tuple(
        (after["at"] - before["at"]) / 1e6
        for before, after in pairwise(launches)
        if before["decode"] and after["decode"] and before["size"] == after["size"] == full
    )


def milliseconds_per_step(runs: Sequence[Run], window: slice = slice(None)) -> list[float]:
    """Return each run's median step, which a hiccup of the host does not move, unless it has no step.

    ``window`` leaves only these of a run's steps.
    """
    steps = [run.step_milliseconds[window] for run in runs]
    return [statistics.median(chosen) for chosen in steps if chosen]


def output_rates(runs: Sequence[Run]) -> list[float]:
    """Return each run's output tokens per second, from its first request to its last answer."""
    return [sum(len(output.tokens) for output in run.outputs) / run.seconds for run in runs]


def pair_ratios(reference: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return each measurement over the one of the reference that was made just before it.

    With six pairs or more the true median ratio lies between the lowest and the highest with 97 % confidence
    (sign test).
    """
    return [mine / theirs for theirs, mine in zip(reference, other, strict=False)]


def first_difference(expected: Sequence[Output], got: Sequence[Output]) -> Difference | None:
    """Return where outputs first differ in a token or in why they ended; None if they are identical."""
    pairs = list(zip(expected, got, strict=True))
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


def largest_logprob_difference(expected: Sequence[Output], got: Sequence[Output]) -> float | None:
    """Return the largest difference of two log probabilities in the same place; None without any."""
    differences = [
        abs(mine - theirs)
        for one, other in zip(expected, got, strict=True)
        for theirs, mine in zip(one.logprobs, other.logprobs, strict=False)
    ]
    return max(differences, default=None)


def accept_length(outputs: Sequence[Output]) -> float | None:
    """Return the tokens that a request gains in a decode step; None if no step was taken.

    The first token of each request is left out: it comes from the prefill.
    """
    stepped = [output for output in outputs if output.steps and output.tokens]
    steps = sum(output.steps for output in stepped)
    return sum(len(output.tokens) - 1 for output in stepped) / steps if steps else None


def distinct_tokens(outputs: Sequence[Output]) -> int:
    """Return how many different tokens there are: a handful means a cycle, in which an error can hide."""
    return len({token for output in outputs for token in output.tokens})


def first_error(log: str) -> str | None:
    """Return the line that says what went wrong first: an exception's own, else the first that complains."""
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
