"""A rank without requests finds no metadata of requests that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

before_and_after = without_and_with_each("26313", ("0.5.11", "0.5.12.post1"))


def test_an_idle_forward_without_requests_finds_no_metadata_of_the_last_batch(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    assert before.ask("idle_ranks.metadata", 0) == ["of the last batch"]
    assert after.ask("idle_ranks.metadata", 0) == [None]


def test_an_idle_forward_of_padded_requests_is_planned_as_it_was(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    for tree in before_and_after:
        assert tree.ask("idle_ranks.metadata", 2) == ["of 2 requests"]
