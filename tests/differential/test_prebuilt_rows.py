"""On a decode server a request that arrives starts from its own token, whoever had its row before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree


def test_a_request_that_takes_the_row_of_a_running_step_starts_from_its_own_token(
    later_before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = later_before_and_after
    assert before.ask("prebuilt_rows.first_token") == {"token": 7, "waited": False}
    assert after.ask("prebuilt_rows.first_token") == {"token": 42, "waited": True}


def test_without_overlap_nothing_waits(later_before_and_after: tuple[DrivenTree, DrivenTree]) -> None:
    for tree in later_before_and_after:
        assert tree.ask("prebuilt_rows.first_token", overlap=False) == {"token": 42, "waited": False}
