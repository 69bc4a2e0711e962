"""The keys of a draft with multi-latent attention are written to the slots of their own row and step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

before_and_after = without_and_with_each("pk-draft-slots", ["0.5.12.post1", "0.5.14"])
# Its kernel needs a GPU.
last_before_and_after = without_and_with_each("pk-draft-slots", ["0.5.23"])


def own_slots(rows: int, topk: int, steps: int) -> list[int]:
    """What `drafts.written` returns if each key is in its own slot; the last step writes none."""
    return [slot + 1 if slot % steps < steps - 1 else 0 for slot in range(rows * topk * steps)]


@pytest.mark.parametrize(("rows", "topk", "steps"), [(2, 1, 2), (3, 1, 3), (5, 1, 5), (1, 3, 3), (2, 2, 4)])
def test_a_batch_writes_the_keys_of_each_step_to_its_own_slots(
    before_and_after: tuple[DrivenTree, DrivenTree], rows: int, topk: int, steps: int
) -> None:
    before, after = before_and_after
    assert before.ask("drafts.written", rows, topk, steps) != own_slots(rows, topk, steps)
    assert after.ask("drafts.written", rows, topk, steps) == own_slots(rows, topk, steps)


def test_a_single_chain_was_written_to_its_own_slots(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    for tree in before_and_after:
        assert tree.ask("drafts.written", 1, 1, 3) == own_slots(1, 1, 3)


def test_the_slots_that_the_last_releases_kernel_reads_are_adjacent(
    last_before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = last_before_and_after
    assert before.ask("drafts.strides", 4, 1, 3) == [3, 3]
    assert after.ask("drafts.strides", 4, 1, 3) == [1, 1]
