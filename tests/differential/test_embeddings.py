"""A rank of a tensor-parallel server has the same rows of the embedding, whether one launch looks them up or a few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Both = tuple["DrivenTree", "DrivenTree"]

before_and_after = without_and_with_each("30948", ["0.5.11", "0.5.12.post1", "0.5.13", "0.5.15"])

TOKENS = [0, 9, 10, 19, 20, 22]


def results(told: dict[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in ("rows", "reduced")}


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 26), max_size=6),
            st.sampled_from([1, 2, 4]),
            st.integers(1, 23),
            st.integers(0, 4),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_each_rank_has_the_same_rows(
    before_and_after: Both, drawn: list[tuple[list[int], int, int, int]]
) -> None:
    # One rank alone looks up what is given as it is.
    asked = [
        ([token % (base + added) for token in tokens], ranks, base, added)
        for tokens, ranks, base, added in drawn
    ]
    before, after = (tree.ask_many("embeddings.looked_up", asked) for tree in before_and_after)
    assert [results(told) for told in after] == [results(told) for told in before]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("scattered", [False, True])
def test_tokens_of_no_rank_have_rows_of_zeros(before_and_after: Both, dtype: str, scattered: bool) -> None:
    tokens = [*TOKENS, -1, -(2**31), 2**31 - 1]
    before, after = (
        tree.ask("embeddings.looked_up", tokens, dtype=dtype, scattered=scattered)
        for tree in before_and_after
    )
    assert results(after) == results(before)
    assert (len(before["masked"]), len(after["masked"])) == (2, 0)
    assert after["reduced"] == ([] if scattered else [len(tokens)] * 2)


@pytest.mark.parametrize("other", [{"quantized": True}, {"disable": "30948"}, {"ranks": 1}])
def test_what_the_launch_is_not_for_is_looked_up_as_it_was(
    before_and_after: Both, other: dict[str, Any]
) -> None:
    before, after = (tree.ask("embeddings.looked_up", TOKENS, **other) for tree in before_and_after)
    assert after == before
