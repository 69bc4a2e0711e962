"""The figures of paired runs: ratios, their interval, tokens that differ, accept lengths, errors in a log."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.bench import figures
from patchkit.bench.figures import (
    Reply,
    TokenDifference,
    accept_length,
    fastest,
    first_difference,
    first_error,
    gain_of,
    judged,
    resampled_interval,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def outputs(*tokens: Sequence[int], finish: str = "length", steps: int = 1) -> list[Reply]:
    return [Reply(tuple(token), finish, steps) for token in tokens]


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


def test_tokens_are_not_judged_where_two_runs_of_the_first_tree_differ() -> None:
    one, other = outputs([1, 2]), outputs([1, 3])
    assert judged([one, one], [one, one]) == ("equal", None)
    assert judged([one, one], [one, other]) == ("differ", TokenDifference(0, 1, 2, 3, 1, 1))
    assert judged([one, other], [other]) == ("not judged", TokenDifference(0, 1, 2, 3, 1, 1))


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=4), st.data())
def test_a_difference_is_found_exactly_where_one_is(tokens: list[list[int]], data: st.DataObject) -> None:
    other = [
        data.draw(st.one_of(st.just(token), st.lists(st.integers(0, 3), max_size=4))) for token in tokens
    ]
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


def test_slow_runs_leave_the_figure_of_the_fastest_eighth_alone() -> None:
    slow = [9.0, 7.0, 8.0] * 10
    assert fastest([*slow, 2.0, 2.5, 3.0, 3.5]) == 2.75
    assert fastest([3.0, 2.0]) == 2.0


@pytest.mark.parametrize("pairs", [0, 1, 15])
def test_few_pairs_have_no_interval(pairs: int) -> None:
    assert resampled_interval(pairs, sum) is None


def test_the_interval_of_the_same_pairs_is_the_same() -> None:
    def mean(pairs: Sequence[int]) -> float:
        return sum(pairs) / len(pairs)

    low, high = resampled_interval(40, mean) or (0.0, 0.0)
    # The mean of 0 to 39, give or take two standard errors of 1.8.
    assert low == pytest.approx(15.9, abs=0.4)
    assert high == pytest.approx(23.1, abs=0.4)
    assert resampled_interval(40, mean) == (low, high)


def test_an_interval_of_equal_trees_contains_one_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "_RESAMPLES", 400)
    drawn = random.Random(1)
    held = 0
    for _ in range(300):
        # Skewed, as times are.
        both = [[1 + 0.2 * drawn.expovariate(1) for _ in range(60)] for _ in range(2)]

        def ratio(pairs: Sequence[int], both: list[list[float]] = both) -> float:
            first, second = (fastest([runs[pair] for pair in pairs]) for runs in both)
            return second / first

        low, high = resampled_interval(60, ratio) or (2.0, 2.0)
        held += low <= 1 <= high
    assert held / 300 > 0.92


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


@pytest.mark.parametrize(("ratio", "is_gain"), [(0.93, True), (0.96, False), (1.04, False), (1.07, True)])
def test_a_ratio_as_far_from_1_as_that_of_the_same_tree_is_no_gain(ratio: float, is_gain: bool) -> None:
    interval = (ratio - 0.01, ratio + 0.01)
    assert gain_of(ratio, interval).endswith("time for each step")
    assert gain_of(ratio, interval, 1.05).endswith("time for each step") == is_gain
