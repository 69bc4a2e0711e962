"""A step of FlashAttention-3's draft looks up the pages of the tokens that are drafted, and of no later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with
from support.driven.trees import ProbeError

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

PAGE = 2
# Six steps of two branches: each on three pages of its own.
BRANCHES = [[10, 11, 12, 13, 14, 15], [20, 21, 22, 23, 24, 25]]


@pytest.fixture(scope="module", params=[("0.5.11", ()), ("0.5.12.post1", ()), ("0.5.12.post1", ("31364",))])
def before_and_after(request: pytest.FixtureRequest, releases: Releases) -> tuple[DrivenTree, DrivenTree]:
    """A release that lacks the patch as it is, and with it, beside another that changes the same method."""
    version, beside = request.param
    return without_and_with(releases, version, "27360", *beside)


@pytest.mark.parametrize("step", [0, 2])
def test_pages_of_later_steps_stay_out_of_the_table(
    before_and_after: tuple[DrivenTree, DrivenTree], step: int
) -> None:
    _, after = before_and_after
    result = after.ask("branch_pages.replayed", BRANCHES, step=step, page=PAGE)
    assert result["lengths"] == [step + 1] * len(BRANCHES)
    for row, slots in zip(result["pages"], BRANCHES, strict=True):
        known = sorted({slot // PAGE for slot in slots[: step + 1]})
        assert row == known + [0] * (step + 2 - len(known))


def test_an_unpatched_first_step_writes_beyond_its_table(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, _ = before_and_after
    with pytest.raises(ProbeError, match="out of bounds"):
        before.ask("branch_pages.replayed", BRANCHES, step=0, page=PAGE)
