"""The cache gets a finished request's Mamba state under the length that the state is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree


def mislabelled(ends: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the cache takes for the state of another length."""
    return [end for end in ends if end["labelled"] is not None and end["labelled"] != end["of"]]


def test_a_prefill_behind_a_tracked_step_does_not_have_the_other_slot_cached(
    later_before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = later_before_and_after
    request = ("track_boundaries.finish", "ddp")
    # Both results find the length of the second step, and the slot is changed twice.
    result = before.ask(*request, prompt=2)
    assert (result["labelled"], result["of"]) == (4, None)
    result = after.ask(*request, prompt=2)
    assert (result["labelled"], result["of"]) == (4, 4)


def test_a_tracked_step_behind_a_prefill_is_not_missed_where_slots_are_taken_lazily(
    later_before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = later_before_and_after
    request = ("track_boundaries.finish", "dpdpdd")
    result = before.ask(*request, prompt=1, lazy=True)
    assert (result["labelled"], result["of"]) == (2, 4)
    result = after.ask(*request, prompt=1, lazy=True)
    assert (result["labelled"], result["of"]) == (4, 4)


@pytest.mark.parametrize("lazy", [False, True])
def test_every_order_of_decodes_and_prefills_caches_the_last_tracked_state_and_loses_no_slot(
    later_before_and_after: tuple[DrivenTree, DrivenTree], lazy: bool
) -> None:
    before, after = later_before_and_after
    ends = after.ask("track_boundaries.every_end", lazy=lazy)
    assert mislabelled(ends) == []
    last = [end["launched"] // 2 * 2 for end in ends]
    tracked = [length if length > end["prompt"] else None for length, end in zip(last, ends, strict=True)]
    assert [end["labelled"] for end in ends] == tracked
    assert [end for end in ends if end["lost"]] == []
    assert mislabelled(before.ask("track_boundaries.every_end", lazy=lazy))


def test_a_step_without_a_second_slot_caches_the_state_that_it_wrote_or_none(
    later_before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    _, after = later_before_and_after
    ends = after.ask("track_boundaries.every_end", lazy=True, room=False)
    assert mislabelled(ends) == []
    assert [end for end in ends if end["lost"]] == []
