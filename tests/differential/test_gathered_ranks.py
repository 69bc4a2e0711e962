"""With DP attention each rank knows the same of the others, and waits for the device once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with_each
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Both = tuple["DrivenTree", "DrivenTree"]
Row = list[int]

before_and_after = without_and_with_each("34338", ["0.5.11", "0.5.12.post1", "0.5.13", "0.5.17"])

# A rank that decodes and one that has nothing to do: tokens, tokens with logits, graph, extends, two batches, mode,
# prefill's graph.
ROWS = [[4, 4, 1, 0, 1, 2, 1], [0, 0, 1, 0, 1, 4, 1]]


@pytest.mark.parametrize("attn_tp", [1, 2])
def test_the_numbers_are_copied_from_the_device_once(before_and_after: Both, attn_tp: int) -> None:
    before, after = before_and_after
    rows = [row for row in ROWS for _ in range(attn_tp)]
    was, result = (
        tree.ask("gathered_ranks.gathered", rows, "cuda", attn_tp=attn_tp) for tree in (before, after)
    )
    assert (result["known"], result["split"]) == (was["known"], was["split"])
    assert result["known"]["global_num_tokens"] == [4, 0]
    assert len(was["reads"]) >= 4
    assert result["reads"] == ["cpu"]


def test_on_the_host_nothing_changes(before_and_after: Both) -> None:
    before, after = (tree.ask("gathered_ranks.gathered", ROWS, "cpu") for tree in before_and_after)
    assert after == before
    assert after["reads"] == []


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[Row], str, int | None]:
    row = st.tuples(
        st.integers(0, 9), st.integers(0, 9), *[st.integers(0, 1)] * 3, st.integers(1, 4), st.integers(0, 1)
    )
    rows = [list(each) for each in draw(st.lists(row, min_size=2, max_size=4))]
    return rows, draw(st.sampled_from(["cpu", "cuda"])), draw(st.none() | st.integers(0, len(rows) - 1))


@examples(5)
@given(st.lists(steps(), min_size=1, max_size=8))
def test_every_rank_has_the_same_data_of_the_others(
    before_and_after: Both, drawn: list[tuple[list[Row], str, int | None]]
) -> None:
    before, after = (tree.ask_many("gathered_ranks.gathered", drawn) for tree in before_and_after)
    for was, result in zip(before, after, strict=True):
        assert (result["known"], result["split"]) == (was["known"], was["split"])
