"""A prefill continues from the state of its cached prefix, and from no other request's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with
from support.releases import OF_LATER_RELEASES

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

CACHED = [64, 0, 128]


@pytest.fixture(scope="module")
def before_and_after(releases: Releases) -> tuple[DrivenTree, DrivenTree]:
    """The release that both patches are for, as it is and with what it lacks."""
    return without_and_with(releases, "0.5.14", *OF_LATER_RELEASES)


@pytest.mark.parametrize("in_session", [False, True])
def test_a_request_that_was_turned_down_copies_no_state_that_a_former_match_found(
    before_and_after: tuple[DrivenTree, DrivenTree], in_session: bool
) -> None:
    before, after = before_and_after
    result = before.ask("cached_states.matched_and_turned_down", room=False, in_session=in_session)
    assert result["from"] == [9]
    assert result["cleared"] == []
    result = after.ask("cached_states.matched_and_turned_down", room=False, in_session=in_session)
    assert result["from"] == []
    assert result["cleared"] == result["own"]


def test_a_request_that_found_room_copies_the_state_that_it_matched(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    result = after.ask("cached_states.matched_and_turned_down", room=True)
    assert result == before.ask("cached_states.matched_and_turned_down", room=True)
    assert (result["from"], result["to"]) == ([9], result["own"])


def test_a_prefill_that_is_not_tracked_continues_its_cached_state(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    assert before.ask("cached_states.continued", CACHED, [False, False, True]) == [False, False, True]
    assert after.ask("cached_states.continued", CACHED, [False, False, True]) == [True, False, True]
    assert after.ask("cached_states.continued", CACHED, None) == [True, False, True]
