"""Compute the figures of a scenario's runs besides their tokens: log probabilities, and how many tokens there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.bench.figures import Reply


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
