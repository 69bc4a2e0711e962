"""Linear attention around a verify: states move, and are looked up, as they did, with a launch each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with
from support.driven.graph_sessions import sessions
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

Case = dict[str, Any]
SLOTS = 16
COUNTING = {"arange", "floor_divide", "where", "sub"}


@pytest.fixture(scope="module", params=["0.5.11", "0.5.12.post1", "0.5.13", "0.5.14"])
def before_and_after(request: pytest.FixtureRequest, releases: Releases) -> tuple[DrivenTree, DrivenTree]:
    """Each release without and with the patch, and with the one that tells a replay its padding."""
    return without_and_with(releases, request.param, "28579", "pk-linear-launches")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Requests some of which pass an interval's end, and some without a slot."""
    rows, tokens = draw(st.integers(1, 5)), draw(st.integers(2, 6))
    # Each request has slots of its own.
    slots = draw(st.permutations(range(1, SLOTS)))
    live = draw(st.lists(st.booleans(), min_size=2 * rows, max_size=2 * rows))
    mine = [slot if is_live else -1 for slot, is_live in zip(slots, live, strict=False)]
    return {
        "tokens": tokens,
        "interval": draw(st.integers(1, 5)),
        "lens": draw(st.lists(st.integers(1, 40), min_size=rows, max_size=rows)),
        "accepted": draw(st.lists(st.integers(1, tokens), min_size=rows, max_size=rows)),
        "slots": mine[:rows],
        "tracked": draw(st.sampled_from([None, mine[rows:]])),
    }


@examples(6)
@given(st.lists(cases(), min_size=1, max_size=6))
def test_every_slot_has_the_state_that_it_had_unpatched(
    before_and_after: tuple[DrivenTree, DrivenTree], drawn: list[Case]
) -> None:
    before, after = (
        tree.ask_many("linear_states.committed", [(case,) for case in drawn]) for tree in before_and_after
    )
    for name in ("states", "windows"):
        assert [each[name] for each in after] == [each[name] for each in before]


ONE: Case = {
    "tokens": 4,
    "interval": 8,
    "lens": [6, 9],
    "accepted": [3, 1],
    "slots": [3, 5],
    "tracked": [7, 9],
}


@pytest.mark.parametrize("tracked", [None, [7, 9]])
def test_steps_are_counted_where_states_are_moved(
    before_and_after: tuple[DrivenTree, DrivenTree], tracked: list[int] | None
) -> None:
    before, after = (
        tree.ask("linear_states.committed", ONE | {"tracked": tracked}) for tree in before_and_after
    )
    assert COUNTING & set(before["operators"])
    assert not COUNTING & set(after["operators"])


@pytest.mark.parametrize(("case", "disable"), [(ONE | {"fork": True}, ""), (ONE, "pk-linear-launches")])
def test_a_subclass_and_a_server_with_the_switch_go_the_way_that_they_went(
    before_and_after: tuple[DrivenTree, DrivenTree], case: Case, disable: str
) -> None:
    before, after = before_and_after
    expected = before.ask("linear_states.committed", case)
    assert after.ask("linear_states.committed", case, disable) == expected


@examples(4)
@given(st.lists(sessions(("decode", "verify"), (1,)), min_size=2, max_size=4))
def test_a_replay_is_planned_as_before(
    before_and_after: tuple[DrivenTree, DrivenTree], drawn: list[dict[str, Any]]
) -> None:
    requests = [(session, "gdn", True, "") for session in drawn]
    before, after = (tree.ask_many("linear_attention.replays", requests) for tree in before_and_after)
    for replay in (replay for result in (before, after) for replayed in result for replay in replayed):
        # Unpatched the host counts padding.
        del replay["host_reads"]
    assert after == before
