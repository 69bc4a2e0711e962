"""Ranks accept the same drafts, also where each decides for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

TOKENS = 4
# The bonus token counts as accepted.
OWN = [[2] * TOKENS, [3], [2] * TOKENS]
FIRST = [[1] * TOKENS, [2], [1] * TOKENS]

before_and_after = without_and_with_each("34238", ["0.5.12.post1", "0.5.17"], alone=True)


def test_a_rank_of_a_rocm_server_accepts_what_the_first_one_does(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    assert before.ask("ranks.verified", own=2, first=1, rocm=True) == OWN
    assert after.ask("ranks.verified", own=2, first=1, rocm=True) == FIRST


def test_ranks_on_other_devices_send_nothing_more(before_and_after: tuple[DrivenTree, DrivenTree]) -> None:
    before, after = before_and_after
    result = after.ask("ranks.verified", own=2, first=1, rocm=False)
    assert result == before.ask("ranks.verified", own=2, first=1, rocm=False) == OWN
