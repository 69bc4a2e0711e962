"""A decode server knows what a step of structured output accepted before it launches the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

OVERLAPPED = ["launch 0", "launch 1", "process 0", "launch 2", "process 1", "process 2"]

before_and_after = without_and_with_each("28039", ("0.5.11", "0.5.13.post1"))


def test_a_step_of_structured_output_is_processed_before_the_next_one_is_launched(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    arguments = ("decode_server.order", [True, True, True])
    assert before.ask(*arguments, speculates=True) == OVERLAPPED
    in_order = ["launch 0", "process 0", "launch 1", "process 1", "launch 2", "process 2"]
    assert after.ask(*arguments, speculates=True) == in_order


def test_steps_before_and_behind_structured_output_overlap(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    _, after = before_and_after
    assert after.ask("decode_server.order", [False, True, False], speculates=True) == [
        *("launch 0", "process 0", "launch 1"),
        *("launch 2", "process 1", "process 2"),
    ]


@pytest.mark.parametrize(("constrained", "speculates"), [(False, True), (True, False)])
def test_steps_without_a_grammar_or_without_a_draft_overlap_as_they_did(
    before_and_after: tuple[DrivenTree, DrivenTree], constrained: bool, speculates: bool
) -> None:
    for tree in before_and_after:
        assert tree.ask("decode_server.order", [constrained] * 3, speculates=speculates) == OVERLAPPED
