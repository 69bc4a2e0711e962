"""A rank without requests finds no metadata of requests that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with_each
from support.driven.trees import ProbeError

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


drafts_before_and_after = without_and_with_each("33892", ("0.5.16", "0.5.17"))


def test_a_rank_without_requests_plans_no_layer_of_a_draft_extend(
    drafts_before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = drafts_before_and_after
    with pytest.raises(ProbeError, match="max"):
        before.ask("idle_drafts.planned", [])
    assert after.ask("idle_drafts.planned", []) == []
    for tree in drafts_before_and_after:
        assert tree.ask("idle_drafts.planned", [5, 9]) == [0, 1, 2]
