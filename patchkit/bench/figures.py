"""The figures of paired runs: ratios with their interval, accept lengths, and the first token that differs.

The standard library alone is imported: `scripts/bench_decode.py` uses this where nothing else is installed.
"""

from __future__ import annotations

import random
import re
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Of a 95 % interval: the share at either end, and how often pairs are drawn again; with fewer there is none, since an
# interval of so few fastest ones would be too narrow.
_TAIL, _RESAMPLES, _FEWEST = 0.025, 2000, 16
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(r"(?P<indent>\s*)(?P<error>[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)\b.*)")
_COMPLAINT = re.compile(
    r"\b(error|illegal|killed|exception|out of memory|segmentation fault)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Reply:
    """The result of one request."""

    tokens: tuple[int, ...]
    finish: str
    steps: int
    """The number of its verify steps, 0 without speculation."""
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True)
class TokenDifference:
    """The first token, in order of requests, that differs from the expected output."""

    request: int
    position: int
    expected: int | None
    """None: the output ends there."""
    got: int | None
    requests: int
    """The number of requests that differ, ``of`` all."""
    of: int


def fastest(values: Sequence[float]) -> float:
    """Return the mean of the smallest eighth of one or more values, of the smallest alone if they are fewer than 16.

    What else runs on a host, or on the other thread of a core, only ever lengthens a run: the fastest ones come out
    again, a mean or a median does not.
    """
    return statistics.mean(sorted(values)[: max(1, len(values) // 8)])


def resampled_interval(pairs: int, figure: Callable[[Sequence[int]], float]) -> tuple[float, float] | None:
    """Return the 95 % interval of a figure of pairs, given their numbers; None with fewer than 16 pairs.

    The bootstrap: ends are quantiles of the figure of as many pairs, drawn with replacement; the same ones each time.
    """
    if pairs < _FEWEST:
        return None
    drawn = random.Random(pairs)
    found = sorted(figure(drawn.choices(range(pairs), k=pairs)) for _ in range(_RESAMPLES))
    cut = int(_TAIL * _RESAMPLES)
    return found[cut], found[-cut - 1]


def differs(ratio: float, interval: tuple[float, float] | None, spread: float = 1.0) -> bool:
    """Return whether a ratio tells of a difference: its interval is without 1, and it is outside of ``spread``.

    ``spread`` is how many times as long as itself the same tree took, at most.
    """
    is_outside = not 1 / spread <= ratio <= spread
    return interval is not None and is_outside and not interval[0] <= 1 <= interval[1]


def gain_of(ratio: float, interval: tuple[float, float] | None, spread: float = 1.0) -> str:
    """Return what a ratio says, or why it says nothing."""
    if interval is None:
        return "not known: too few pairs for an interval"
    if interval[0] <= 1 <= interval[1]:
        return "none: the interval includes 1"
    if not differs(ratio, interval, spread):
        return "none: the same tree twice differs as much"
    return f"{abs(1 - ratio):.1%} {'less' if ratio < 1 else 'more'} time for each step"


def judged(
    first: Sequence[Sequence[Reply]], second: Sequence[Sequence[Reply]]
) -> tuple[str, TokenDifference | None]:
    """Return whether a tree's runs give the tokens of the first tree's first run: equal, or differ and where.

    Nothing tells, and the tokens are not judged, if another run of the first tree gives others itself.
    """
    for outcome, runs in (("not judged", first), ("differ", second)):
        found = next(filter(None, (first_difference(first[0], run) for run in runs)), None)
        if found is not None:
            return outcome, found
    return "equal", None


def first_difference(expected: Sequence[Reply], actual: Sequence[Reply]) -> TokenDifference | None:
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
    return TokenDifference(
        request=differing[0],
        position=position,
        expected=one.tokens[position] if position < len(one.tokens) else None,
        got=other.tokens[position] if position < len(other.tokens) else None,
        requests=len(differing),
        of=len(pairs),
    )


def accept_length(outputs: Sequence[Reply]) -> float | None:
    """Return the tokens per request and decode step; None without a step.

    The first token of each request comes from the prefill and does not count.
    """
    stepped = [output for output in outputs if output.steps and output.tokens]
    steps = sum(output.steps for output in stepped)
    return sum(len(output.tokens) - 1 for output in stepped) / steps if steps else None


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
