"""A verify of a request whose slots for states are gone writes into none; that of one that has them tracks."""

from __future__ import annotations

import pytest
from support.driven.fixtures import without_and_with_each
from support.driven.trees import DrivenTree, ProbeError

RELEASES = ("0.5.11", "0.5.12.post1", "0.5.13", "0.5.14", "0.5.15.post1")
KINDS = ("cuda", "ascend")


before_and_after = without_and_with_each("27998", RELEASES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_verify_of_requests_that_have_their_slots_tracks_as_before(
    before_and_after: tuple[DrivenTree, DrivenTree], kind: str
) -> None:
    before, after = before_and_after
    result = after.ask("tracked_states.crossing_verify", kind, freed=False)
    assert result == before.ask("tracked_states.crossing_verify", kind, freed=False)
    assert result["tracked"] == [result["first"], result["second"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_verify_of_a_request_whose_slots_were_freed_leaves_the_one_that_the_radix_tree_took_over(
    before_and_after: tuple[DrivenTree, DrivenTree], kind: str
) -> None:
    before, after = before_and_after
    with pytest.raises(ProbeError, match="TypeError"):
        before.ask("tracked_states.crossing_verify", kind, freed=True)
    result = after.ask("tracked_states.crossing_verify", kind, freed=True)
    assert result["tracked"] == [-1, result["second"]]
    for wrote in result["wrote"].values():
        assert wrote in ([], [result["second"]])
    if kind == "cuda":
        assert result["wrote"] == {name: [result["second"]] for name in ("temporal", "conv")}
