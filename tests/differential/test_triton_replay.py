"""A Triton backend that fills a replay in one launch leaves every buffer as the tree's own operations do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.graph_sessions import sessions
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

EXAMPLES = examples(5)
MODES = ("decode", "verify", "extend v1", "extend v2")

Sessions = list[dict[str, Any]]


def several(window: st.SearchStrategy[int | None]) -> st.SearchStrategy[Sessions]:
    """Return lists of sessions, so that one round trip serves all of a list."""
    return st.lists(sessions(MODES, (1, 16), window=window), min_size=3)


def replayed(tree: DrivenTree, drawn: Sessions, *, mirror: bool, disable: str = "") -> Any:
    return tree.ask_many("triton_attention.replays", [(session, mirror, disable) for session in drawn])


@EXAMPLES
@given(drawn=several(st.sampled_from([None, 24])), mirror=st.booleans())
def test_every_buffer_equals_the_result_of_the_trees_own_operations(
    unpatched: DrivenTree, opted_out: DrivenTree, drawn: Sessions, mirror: bool
) -> None:
    assert replayed(opted_out, drawn, mirror=mirror) == replayed(unpatched, drawn, mirror=True)


@pytest.mark.parametrize("mode", ["verify", "extend v1", "extend v2"])
def test_a_replay_takes_one_fill_unless_it_is_switched_off(
    unpatched: DrivenTree, opted_out: DrivenTree, mode: str
) -> None:
    session = {
        "server": {"context": 64, "page_size": 1, "draft_tokens": 4},
        "mode": mode,
        "graphs": [2],
        "batches": [{"graph": 2, "rows": [3, 5], "lens": [17, 9], "accepted": [1, 2], "stride": 4}],
    }
    ask = "triton_attention.fills"
    assert unpatched.ask(ask, session) == 0
    assert opted_out.ask(ask, session) == 1
    assert opted_out.ask(ask, session, "pk-triton-replay") == 0
    windowed = session | {"server": {"context": 64, "page_size": 1, "draft_tokens": 4, "window": 16}}
    assert opted_out.ask(ask, windowed) == 0


def test_a_mask_that_is_elsewhere_is_copied_into_the_graphs_buffer(
    unpatched: DrivenTree, opted_out: DrivenTree
) -> None:
    for inside in (False, True):
        expected = unpatched.ask("triton_attention.masked", inside)
        assert opted_out.ask("triton_attention.masked", inside) == expected
