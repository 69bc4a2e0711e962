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
# Behind a whole batch, what padding would find of it is not what it may read or write.
PADDED = [
    {"rows": [3, 5, 1, 7], "lens": [9, 30, 2, 12]},
    {"rows": [7, 2, 3], "lens": [14, 40, 9]},
    {"rows": [2], "lens": [41]},
    {"rows": [1, 3, 7], "lens": [3, 11, 15]},
]


@pytest.fixture(scope="module", params=["0.5.16", "0.5.18", "0.5.20", "0.5.22", "0.5.23"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def before_and_after(version: str, releases: Releases) -> Both:
    return without_and_with(releases, version, "pk-draft-graph")


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """Requests with room for their drafts; each batch is another one, and the tree's own graph drafts some."""
    # Three are padded in every server.
    count = draw(st.sampled_from([3, 1, 2, 4]))
    return {
        "rows": draw(st.permutations(range(1, 12)))[:count],
        "lens": draw(st.lists(st.integers(1, 40), min_size=count, max_size=count)),
        "mirror": draw(st.booleans()),
        "own": draw(st.sampled_from([False, False, False, True])),
    }


def cases() -> st.SearchStrategy[dict[str, Any]]:
    """Servers: their chains and graphs, and whether they have a map of hot tokens or a draft without states."""
    return st.fixed_dictionaries(
        {
            "draft_tokens": st.integers(3, 5),
            "captured": st.sampled_from([[1, 2, 4], [4]]),
            "hot": st.booleans(),
            "standalone": st.booleans(),
        }
    )


def ran(both: Both, case: dict[str, Any], drawn: list[dict[str, Any]], off: str = "") -> tuple[int, int]:
    """Compare all but the number of whole graphs, and return that; their verifies look no slots up."""
    was, result = (
        tree.ask("draft_graphs.drafted", case, drawn, disabled)
        for tree, disabled in zip(both, ["", off], strict=True)
    )
    counts = was.pop("whole"), result.pop("whole")
    _, noted = was.pop("noted"), result.pop("noted")
    assert result == was
    if counts[1]:
        assert all(known for known, step in zip(noted, drawn, strict=True) if not step.get("own"))
    return counts


@pytest.mark.parametrize("backend", ["triton", "fa3", "fa3 on MLA"])
@examples(8)
@given(drawn=st.lists(steps(), min_size=2, max_size=6), case=cases())
def test_a_whole_graph_drafts_and_writes_what_the_trees_own_does(
    before_and_after: Both, backend: str, drawn: list[dict[str, Any]], case: dict[str, Any]
) -> None:
    whole = sum(not step["own"] for step in drawn)
    assert ran(before_and_after, case | {"backend": backend}, drawn) == (0, whole)


@pytest.mark.parametrize("backend", ["triton", "fa3"])
def test_switched_off_no_draft_is_a_whole_graph(before_and_after: Both, backend: str) -> None:
    case = CASE | {"backend": backend}
    assert ran(before_and_after, case, PADDED, "pk-draft-graph") == (0, 0)
    # The same drafts are whole graphs otherwise.
    assert ran(before_and_after, case, PADDED) == (0, len(PADDED))
