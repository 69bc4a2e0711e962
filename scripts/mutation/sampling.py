"""Stratified sampling, reproducible by seed."""

from __future__ import annotations

import random
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

T = TypeVar("T")


def sample(
    candidates: Sequence[T],
    stratum: Callable[[T], Hashable],
    counts: Callable[[T], bool],
    size: int,
    seed: int,
) -> Iterator[T]:
    """Return up to ``size`` candidates that ``counts``: first one of each stratum, then others at random.

    ``counts`` is called at most once per candidate, and only for candidates that are considered.
    """
    shuffled = random.Random(seed).sample(range(len(candidates)), len(candidates))
    groups: dict[Hashable, list[int]] = {}
    for index in shuffled:
        groups.setdefault(stratum(candidates[index]), []).append(index)
    considered: set[int] = set()

    def that_count(indices: Iterable[int]) -> Iterator[T]:
        for index in indices:
            if index not in considered:
                considered.add(index)
                if counts(candidates[index]):
                    yield candidates[index]

    firsts = (first for group in groups.values() for first in islice(that_count(group), 1))
    return islice(chain(firsts, that_count(shuffled)), size)
