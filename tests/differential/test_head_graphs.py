"""A draft as a head graph prepares its verify as the tree's own does."""

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
# What a verify is prepared for as before.
OTHERS = {"tokens", "positions", "states"}
CASE = {"draft_tokens": 4, "captured": [1, 2, 4]}


@pytest.fixture(scope="module", params=["0.5.11", "0.5.12", "0.5.12.post1"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def before_and_after(version: str, releases: Releases) -> Both:
    # With the former, FlashAttention-3 plans without the mirror.
    return without_and_with(releases, version, "31364", "pk-head-graph")


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """Requests with room for their drafts; each batch is another one."""
    count = draw(st.integers(1, 4))
    return {
        "rows": draw(st.permutations(range(1, 12)))[:count],
        "lens": draw(st.lists(st.integers(1, 40), min_size=count, max_size=count)),
        "then": draw(st.sampled_from([*[None] * 4, *sorted(OTHERS), "eager"])),
    }


def ran(both: Both, case: dict[str, Any], drawn: list[dict[str, Any]], off: str = "") -> tuple[int, int]:
    """Compare all but the number of heads, and return that."""
    was, result = (
        tree.ask("head_graphs.verified", case, drawn, disabled)
        for tree, disabled in zip(both, ["", off], strict=True)
    )
    counts = was.pop("heads"), result.pop("heads")
    prepared = was.pop("prepared"), result.pop("prepared")
    assert result == was
    kept = [number for number, step in enumerate(drawn) if step.get("then") in OTHERS]
    assert prepared[1] == (kept if counts[1] else prepared[0])
    return counts


@pytest.mark.parametrize("backend", ["triton", "fa3", "fa3 on MLA"])
@examples(8)
@given(
    drawn=st.lists(steps(), min_size=1, max_size=8),
    tokens=st.integers(3, 5),
    hot=st.booleans(),
    shares=st.booleans(),
)
def test_a_head_prepares_what_a_draft_and_a_verify_do(  # noqa: PLR0917
    before_and_after: Both, backend: str, drawn: list[dict[str, Any]], tokens: int, hot: bool, shares: bool
) -> None:
    case = CASE | {"backend": backend, "draft_tokens": tokens, "hot": hot, "shares": shares}
    assert ran(before_and_after, case, drawn) == (0, len(drawn))


@pytest.mark.parametrize("backend", ["triton", "fa3"])
@pytest.mark.parametrize("switched", ["pk-head-graph", "pk-step-inputs", "pk-triton-replay"])
def test_switched_off_no_draft_is_a_head(before_and_after: Both, backend: str, switched: str) -> None:
    drawn = [{"rows": [3, 5, 1], "lens": [9, 30, 2]}] * 2
    assert ran(before_and_after, CASE | {"backend": backend}, drawn, switched) == (0, 0)


@pytest.mark.parametrize("backend", ["triton", "fa3"])
def test_where_requests_may_ask_for_hidden_states_no_draft_is_a_head(
    before_and_after: Both, backend: str
) -> None:
    drawn = [{"rows": [3, 5, 1], "lens": [9, 30, 2]}] * 2
    case = CASE | {"backend": backend, "returns_states": True}
    assert ran(before_and_after, case, drawn) == (0, 0)


@examples(3)
@given(
    lens=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    width=st.integers(2, 5),
    seed=st.integers(0, 99),
)
def test_a_verify_by_triton_reads_no_mask_over_the_context(
    before_and_after: Both, lens: list[int], width: int, seed: int
) -> None:
    whole, poisoned = before_and_after[1].ask("head_graphs.attended", lens, width, seed)
    assert poisoned == whole
    assert any(value for row in whole for head in row for value in head)
