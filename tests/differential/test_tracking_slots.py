"""The slots that track a request's Mamba state are given back once, and are one request's at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

before_and_after = without_and_with_each("26941", ["0.5.12.post1"])


def test_a_request_that_takes_slots_again_and_gives_them_back_leaves_each_free_once(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    free = before.ask("tracked_states.free_after_turns", 2)
    assert len(free) > len(set(free))
    free = after.ask("tracked_states.free_after_turns", 2)
    assert len(free) == len(set(free))


def test_an_abort_of_a_sessions_first_request_loses_no_slot(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    # Its own and two that track it.
    assert before.ask("tracked_states.slots_of_a_session", aborted=True) == 3
    assert after.ask("tracked_states.slots_of_a_session", aborted=True) == 0
