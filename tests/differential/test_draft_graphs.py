"""A draft as a whole graph gives its verify, and writes, what the tree's own does."""

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
CASE = {"draft_tokens": 4, "captured": [1, 2, 4]}


@pytest.fixture(scope="module", params=["0.5.16", "0.5.18", "0.5.20", "0.5.22", "0.5.23"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def before_and_after(version: str, releases: Releases) -> Both:
    return without_and_with(releases, version, "pk-draft-graph")


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """Requests with room for their drafts; each batch is another one, and the tree's own graph drafts some."""
    count = draw(st.integers(1, 4))
    return {
        "rows": draw(st.permutations(range(1, 12)))[:count],
        "lens": draw(st.lists(st.integers(1, 40), min_size=count, max_size=count)),
        "mirror": draw(st.booleans()),
        "own": draw(st.sampled_from([False, False, False, True])),
    }


def ran(both: Both, case: dict[str, Any], drawn: list[dict[str, Any]], off: str = "") -> tuple[int, int]:
    """Compare all but the number of whole graphs, and return that."""
    was, result = (
        tree.ask("draft_graphs.drafted", case, drawn, disabled)
        for tree, disabled in zip(both, ["", off], strict=True)
    )
    counts = was.pop("whole"), result.pop("whole")
    assert result == was
    return counts


@pytest.mark.parametrize("backend", ["triton", "fa3", "fa3 on MLA"])
@examples(8)
@given(drawn=st.lists(steps(), min_size=1, max_size=8), tokens=st.integers(3, 5), hot=st.booleans())
def test_a_whole_graph_drafts_and_writes_what_the_trees_own_does(
    before_and_after: Both, backend: str, drawn: list[dict[str, Any]], tokens: int, hot: bool
) -> None:
    case = CASE | {"backend": backend, "draft_tokens": tokens, "hot": hot}
    assert ran(before_and_after, case, drawn) == (0, sum(not step["own"] for step in drawn))


@pytest.mark.parametrize("backend", ["triton", "fa3"])
def test_switched_off_no_draft_is_a_whole_graph(before_and_after: Both, backend: str) -> None:
    drawn = [{"rows": [3, 5, 1], "lens": [9, 30, 2]}] * 2
    case = CASE | {"backend": backend}
    assert ran(before_and_after, case, drawn, "pk-draft-graph") == (0, 0)
    # The same drafts are whole graphs otherwise.
    assert ran(before_and_after, case, drawn) == (0, len(drawn))
