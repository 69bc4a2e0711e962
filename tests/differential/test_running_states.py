"""A Mamba state that the running forward writes is cleared and copied once it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

before_and_after = without_and_with_each("24954", ["0.5.12.post1"], alone=True)


def test_a_new_request_starts_empty_in_a_slot_that_a_finished_one_still_writes(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    assert before.ask("running_states.of_a_new_request") == {"state": [77.0], "waited": False}
    assert after.ask("running_states.of_a_new_request") == {"state": [0.0], "waited": True}


@pytest.mark.parametrize("forked", [False, True])
def test_a_copy_is_of_the_state_that_the_running_forward_writes(
    before_and_after: tuple[DrivenTree, DrivenTree], forked: bool
) -> None:
    before, after = before_and_after
    assert before.ask("running_states.of_a_copy", forked=forked) == {"state": [3.0], "waited": False}
    assert after.ask("running_states.of_a_copy", forked=forked) == {"state": [77.0], "waited": True}


def test_nothing_waits_without_the_overlap_schedule(before_and_after: tuple[DrivenTree, DrivenTree]) -> None:
    for tree in before_and_after:
        assert not tree.ask("running_states.of_a_new_request", overlap=False)["waited"]
