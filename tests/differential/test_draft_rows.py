"""The graphs of a draft of several branches have room for the prefix of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

STEPS, CONTEXT = 3, 32
KINDS = ("mha", "mla")


before_and_after = without_and_with_each("27338", ["0.5.11", "0.5.12.post1"])


def prefixes(lens: list[int], topk: int) -> list[list[int]]:
    """The slots that each request's branches read before their own tokens, in the order in which they are read."""
    return [
        [*range(row * CONTEXT, row * CONTEXT + length)]
        for row, length in enumerate(lens)
        for _ in range(topk)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_long_requests_of_several_branches_stay_in_the_graphs_buffer(
    before_and_after: tuple[DrivenTree, DrivenTree], kind: str
) -> None:
    before, after = before_and_after
    lens = [CONTEXT - STEPS, CONTEXT - STEPS]
    result = before.ask("draft_rows.drafted", kind, lens, topk=4, steps=STEPS, context=CONTEXT)
    assert result["behind"] > 0
    result = after.ask("draft_rows.drafted", kind, lens, topk=4, steps=STEPS, context=CONTEXT)
    assert result["behind"] == 0
    for step, read in enumerate(result["read"]):
        rows = [len(prefix) + step + 1 for prefix in prefixes(lens, 4)]
        starts = [sum(rows[:row]) for row in range(len(rows))]
        assert len(read) == sum(rows)
        assert [read[start : start + CONTEXT - STEPS] for start in starts] == prefixes(lens, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_chain_has_the_buffer_that_it_had(
    before_and_after: tuple[DrivenTree, DrivenTree], kind: str
) -> None:
    before, after = before_and_after
    case = {"topk": 1, "steps": STEPS, "context": CONTEXT}
    result = after.ask("draft_rows.drafted", kind, [CONTEXT - STEPS, 5], **case)
    assert result == before.ask("draft_rows.drafted", kind, [CONTEXT - STEPS, 5], **case)
    assert result["behind"] == 0
