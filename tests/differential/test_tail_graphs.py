"""A draft-extend as a tail graph passes on and writes what the tree's own does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

Both = tuple["DrivenTree", "DrivenTree"]
FIRST = ("0.5.11", "0.5.12.post1")
CASE = {"draft_tokens": 4, "captured": [1, 2, 4]}


@pytest.fixture(scope="module", params=[*FIRST, "0.5.13", "0.5.14", "0.5.18", "0.5.21", "0.5.23"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def before_and_after(version: str, releases: Releases) -> Both:
    named = "pk-tail-graph" if version in FIRST else "pk-planned-tail-graph"
    # With the former, FlashAttention-3 plans without the mirror.
    return without_and_with(releases, version, "31364", named)


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """Requests with room for their drafts."""
    count = draw(st.integers(1, 4))
    return {
        "rows": draw(st.permutations(range(1, 12)))[:count],
        "lens": draw(st.lists(st.integers(1, 40), min_size=count, max_size=count)),
        "accepted": draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)),
        "replayed": draw(st.sampled_from([True, True, True, False])),
    }


def assert_passed(result: dict[str, Any], was: dict[str, Any]) -> None:
    """Compare what later steps read; a product of other rows rounds states, and scores of one branch are not read."""
    for ours, theirs in zip(result["passed"], was["passed"], strict=True):
        assert ours["topk_index"] == theirs["topk_index"]
        assert ours["hidden_states"] == [pytest.approx(row, rel=1e-5) for row in theirs["hidden_states"]]
    assert result["cache"] == [pytest.approx(row, rel=1e-5) for row in was["cache"]]


@pytest.mark.parametrize("backend", ["triton", "fa3", "fa3 on MLA"])
@examples(8)
@given(drawn=st.lists(steps(), min_size=1, max_size=12))
def test_a_tail_passes_on_and_writes_what_a_draft_extend_does(
    before_and_after: Both, backend: str, drawn: list[dict[str, Any]]
) -> None:
    case = CASE | {"backend": backend}
    was, result = (tree.ask("tail_graphs.extended", case, drawn) for tree in before_and_after)
    assert_passed(result, was)
    assert (was["tails"], result["tails"]) == (0, sum(step["replayed"] for step in drawn))


@pytest.mark.parametrize("backend", ["triton", "fa3"])
@pytest.mark.parametrize("switched", ["pk-tail-graph,pk-planned-tail-graph", "26397"])
def test_switched_off_no_draft_extend_is_a_tail(before_and_after: Both, backend: str, switched: str) -> None:
    drawn = [{"rows": [3, 5, 1], "lens": [9, 30, 2], "accepted": [1, 4, 2]}] * 2
    was, result = (
        tree.ask("tail_graphs.extended", CASE | {"backend": backend}, drawn, off)
        for tree, off in zip(before_and_after, ["", switched], strict=True)
    )
    assert_passed(result, was)
    assert result["tails"] == 0
