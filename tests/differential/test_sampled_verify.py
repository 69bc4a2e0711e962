"""A sampled verify renormalises only by what a request of its batch asks for, and accepts by the same probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with_each
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Both = tuple["DrivenTree", "DrivenTree"]
Sampling = dict[str, Any]

before_and_after = without_and_with_each("31294", ["0.5.11", "0.5.12.post1", "0.5.13", "0.5.14", "0.5.15"])

SCORES = [3.0, 1.0, 0.5, 2.5, -1.0]
WARM: Sampling = {"temperature": 0.8}
GREEDY: Sampling = {"temperature": 0.0}
LIKELIEST: Sampling = {"temperature": 0.8, "top_k": 2}
MASS: Sampling = {"temperature": 0.8, "top_p": 0.6}


@pytest.mark.parametrize(
    ("requests", "ran"),
    [
        ([WARM, WARM], []),
        ([WARM, LIKELIEST], ["top-k"]),
        ([MASS, WARM], ["top-p"]),
        ([MASS, LIKELIEST, WARM], ["top-k", "top-p"]),
        # A greedy request of a batch that is not greedy as a whole is sampled with a top-k of 1.
        ([WARM, GREEDY], ["top-k"]),
    ],
)
def test_only_what_a_request_needs_runs(
    before_and_after: Both, requests: list[Sampling], ran: list[str]
) -> None:
    before, after = before_and_after
    for path in after.ask("sampled_verify.paths"):
        was, result = (
            tree.ask("sampled_verify.verified", path, requests, SCORES) for tree in (before, after)
        )
        assert result["ran"] == ran
        assert set(was["ran"]) >= {"top-k"}
        assert result["probs"] == [pytest.approx(row) for row in was["probs"]]


def test_what_a_joining_request_needs_runs(before_and_after: Both) -> None:
    _, after = before_and_after
    for path in after.ask("sampled_verify.paths"):
        result = after.ask("sampled_verify.verified", path, [WARM, MASS, LIKELIEST], SCORES, joined=2)
        assert result["ran"] == ["top-k", "top-p"]


@st.composite
def batches(draw: st.DrawFn) -> list[Sampling]:
    request = st.fixed_dictionaries(
        {"temperature": st.sampled_from([0.0, 0.5, 1.0, 1.5])},
        optional={
            "top_k": st.sampled_from([-1, 1, 2, 3, 4, 5, 99]),
            "top_p": st.sampled_from([0.1, 0.5, 0.9, 1.0]),
        },
    )
    return [{"temperature": 0.7}, *draw(st.lists(request, max_size=4))]


@examples(5)
@given(st.lists(batches(), min_size=1, max_size=8))
def test_drafts_are_accepted_by_the_same_probabilities(
    before_and_after: Both, drawn: list[list[Sampling]]
) -> None:
    for path in before_and_after[1].ask("sampled_verify.paths"):
        before, after = (
            tree.ask_many("sampled_verify.verified", [(path, requests, SCORES) for requests in drawn])
            for tree in before_and_after
        )
        for was, result in zip(before, after, strict=True):
            assert result["probs"] == [pytest.approx(row) for row in was["probs"]]
