"""The figures of paired runs: ratios, their interval, tokens that differ, accept lengths, errors in a log."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.bench.compare import gain_of
from patchkit.bench.figures import (
    Reply,
    Spread,
    TokenDifference,
    accept_length,
    first_difference,
    first_error,
    median_interval,
    pair_ratios,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def outputs(*tokens: Sequence[int], finish: str = "length", steps: int = 1) -> list[Reply]:
    return [Reply(tuple(each), finish, steps) for each in tokens]


def test_ratios_are_taken_pair_by_pair_and_not_of_the_medians() -> None:
    # A machine that slows down halfway: each pair says 0.9.
    reference, other = [1.0, 1.0, 2.0, 2.0], [0.9, 0.9, 1.8, 1.8]
    assert pair_ratios(reference, other) == pytest.approx([0.9] * 4)
    assert Spread.of(pair_ratios(reference, [0.9])) == Spread(0.9, 0.9, 0.9, 1)


def test_identical_outputs_have_no_difference() -> None:
    assert first_difference(outputs([1, 2], [3]), outputs([1, 2], [3])) is None


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (outputs([1, 2], [3, 9, 5]), TokenDifference(1, 1, 4, 9, 1, 2)),
        (outputs([1, 2], [3, 4]), TokenDifference(1, 2, 5, None, 1, 2)),
        (outputs([7], [3, 4, 5, 6]), TokenDifference(0, 0, 1, 7, 2, 2)),
    ],
    ids=["another token", "an output that ends early", "several requests"],
)
def test_the_first_difference_is_named(got: list[Reply], expected: TokenDifference) -> None:
    assert first_difference(outputs([1, 2], [3, 4, 5]), got) == expected


def test_the_same_tokens_that_ended_for_another_reason_differ() -> None:
    found = first_difference(outputs([1, 2]), outputs([1, 2], finish="abort"))
    assert found == TokenDifference(0, 2, None, None, 1, 1)


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=4), st.data())
def test_a_difference_is_found_exactly_where_one_is(tokens: list[list[int]], data: st.DataObject) -> None:
    other = [data.draw(st.one_of(st.just(each), st.lists(st.integers(0, 3), max_size=4))) for each in tokens]
    found = first_difference(outputs(*tokens), outputs(*other))
    assert (found is None) == (tokens == other)
    if found is not None:
        one, two = tokens[found.request], other[found.request]
        assert one[: found.position] == two[: found.position]
        assert one[found.position : found.position + 1] != two[found.position : found.position + 1]


def test_the_accept_length_leaves_the_prefills_token_out() -> None:
    both = outputs([1, 2, 3, 4, 5], steps=2) + outputs([1, 2, 3], steps=1)
    assert accept_length(both) == 2.0


def test_requests_that_never_ran_have_no_accept_length() -> None:
    assert accept_length(outputs([], steps=0)) is None
    assert accept_length(outputs([], steps=0) + outputs([1, 2, 3, 4], steps=1)) == 3.0


def test_the_first_error_of_a_log_is_the_first_exceptions_own_line() -> None:
    log = """\
[TP0] an error rate of 0 is fine
[TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "scheduler.py", line 1, in run
    raise RuntimeError("CUDA error")
torch.AcceleratorError: CUDA error: an illegal memory access was encountered
Compile with more.

Traceback (most recent call last):
ValueError: the second
"""
    assert first_error(log) == (
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    )


def test_a_log_without_a_traceback_gives_the_first_line_that_complains() -> None:
    assert first_error("fine\nstill fine\n  Killed\nerror: late\n") == "Killed"


def test_a_clean_log_has_no_error() -> None:
    assert first_error("up\ndown\nno terror here\n") is None


def test_the_interval_of_fixed_times_is_asserted() -> None:
    reference = [2.0, 2.1, 2.0, 1.9, 2.0, 2.2, 2.0, 2.0, 2.1, 2.0]
    other = [1.8, 1.8, 1.9, 1.8, 1.7, 1.9, 2.0, 1.8, 1.9, 1.9]
    ratios = sorted(pair_ratios(reference, other))
    # Of ten values the second smallest and the second largest: a fair coin falls heads at most once of ten in 1.1 %.
    assert median_interval(ratios) == (ratios[1], ratios[8])


@pytest.mark.parametrize(
    ("count", "rank"), [(0, 0), (1, 0), (5, 0), (6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (100, 40)]
)
def test_the_ends_of_an_interval_are_those_of_the_sign_test(count: int, rank: int) -> None:
    found = median_interval([float(value) for value in range(count)])
    assert found == ((rank - 1, count - rank) if rank else None)


def test_an_interval_contains_the_median_as_often_as_it_says() -> None:
    drawn = random.Random(1)
    # Skewed, as times are.
    samples = [[drawn.expovariate(1) for _ in range(12)] for _ in range(2000)]
    intervals = [median_interval(sample) for sample in samples]
    median = math.log(2)
    held = sum(low <= median <= high for low, high in filter(None, intervals))
    assert held / len(samples) > 0.95


@pytest.mark.parametrize(
    ("interval", "gain"),
    [
        ((0.85, 0.95), "10.0% less time for each step"),
        ((1.05, 1.2), "10.0% more time for each step"),
        ((0.85, 1.0), "none: the interval includes 1"),
        ((0.85, 1.1), "none: the interval includes 1"),
        (None, "not known: too few pairs for an interval"),
    ],
)
def test_a_ratio_whose_interval_includes_1_is_no_gain(
    interval: tuple[float, float] | None, gain: str
) -> None:
    ratio = 1.1 if interval and interval[0] > 1 else 0.9
    assert gain_of(ratio, interval) == gain
