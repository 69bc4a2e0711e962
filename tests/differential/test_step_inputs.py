"""A step's draft, verify and draft-extend are prepared as before, with fewer launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with, without_and_with_each
from support.driven.graph_sessions import sessions
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

Case = dict[str, Any]

before_and_after = without_and_with_each(
    "pk-step-inputs", ["0.5.11", "0.5.12.post1", "0.5.13", "0.5.14", "0.5.16", "0.5.18", "0.5.21"], alone=True
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Requests with room for what is drafted; most drafts are of one branch."""
    count = draw(st.integers(1, 5))
    return {
        "rows": draw(st.permutations(range(8)))[:count],
        "lens": draw(st.lists(st.integers(1, 30), min_size=count, max_size=count)),
        "steps": draw(st.integers(1, 5)),
        "topk": draw(st.sampled_from([1, 1, 1, 2])),
        "seed": draw(st.integers(0, 99)),
    }


@examples(6)
@given(st.lists(cases(), min_size=1, max_size=6))
def test_draft_and_verify_write_where_they_wrote(
    before_and_after: tuple[DrivenTree, DrivenTree], drawn: list[Case]
) -> None:
    before, after = before_and_after
    requests = [(case,) for case in drawn]
    assert after.ask_many("step_inputs.prepared", requests) == before.ask_many(
        "step_inputs.prepared", requests
    )


def test_a_verify_that_the_plan_stream_prepares_does_not_need_what_the_drafts_stream_computes(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    # In 0.5.13 and later the plan stream waits for the draft's only with 25925/plan-stream.
    case = {"rows": [3, 1], "lens": [4, 9], "steps": 3, "topk": 1, "seed": 1}
    before, after = (tree.ask("step_inputs.prepared", case, plan_stream=True) for tree in before_and_after)
    assert after == before


def test_switched_off_they_look_for_themselves(before_and_after: tuple[DrivenTree, DrivenTree]) -> None:
    before, after = before_and_after
    case = {"rows": [3, 1], "lens": [4, 9], "steps": 3, "topk": 1, "seed": 1}
    off = after.ask("step_inputs.prepared", case, "pk-step-inputs,pk-triton-replay")
    assert off == before.ask("step_inputs.prepared", case)


@pytest.fixture(scope="module", params=["0.5.13", "0.5.14"])
def later(request: pytest.FixtureRequest, releases: Releases) -> tuple[DrivenTree, DrivenTree]:
    return without_and_with(releases, request.param, "pk-step-inputs")


@examples(4)
@given(st.lists(sessions(("extend v2",), (1, 16), window=st.sampled_from([None, 24])), min_size=3))
def test_a_draft_extend_of_later_trees_is_planned_as_before(
    later: tuple[DrivenTree, DrivenTree], drawn: list[dict[str, Any]]
) -> None:
    before, after = later
    requests = [(session, True, "") for session in drawn]
    assert after.ask_many("triton_attention.replays", requests) == before.ask_many(
        "triton_attention.replays", requests
    )


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_later_layer_of_a_draft_extends_more_tokens_than_were_drafted(
    later: tuple[DrivenTree, DrivenTree], layer: int
) -> None:
    # With --enable-multi-layer-eagle the tokens before the drafted ones are computed anew.
    extends = 4 + layer
    session = {
        "server": {"context": 64, "requests": 12, "page_size": 1, "draft_tokens": 4},
        "mode": "extend v2",
        "graphs": [2, 4],
        "batches": [
            {"graph": graph, "rows": [3, 5], "lens": [17, 9], "accepted": [1, 2]}
            | {"stride": extends, "extends": extends}
            for graph in (2, 4)
        ],
    }
    before, after = later
    expected = before.ask("triton_attention.replays", session, mirror=False)
    assert after.ask("triton_attention.replays", session, mirror=False) == expected
    # A capture of each graph, and the replays.
    assert after.ask("triton_attention.fills", session) == (4 if layer == 0 else 2)


def test_a_draft_extend_of_later_trees_is_filled_at_once(later: tuple[DrivenTree, DrivenTree]) -> None:
    before, after = later
    session = {
        "server": {"context": 64, "page_size": 1, "draft_tokens": 4},
        "mode": "extend v2",
        "graphs": [2],
        "batches": [{"graph": 2, "rows": [3, 5], "lens": [17, 9], "accepted": [1, 2], "stride": 4}],
    }
    assert before.ask("triton_attention.fills", session) == 0
    # A capture plans as a replay does.
    assert after.ask("triton_attention.fills", session) > 0
    assert after.ask("triton_attention.fills", session, "pk-step-inputs") == 0
