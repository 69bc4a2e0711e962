"""The graphs of a draft of several branches have room for each prefix, and its steps are planned by the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with_each
from support.sweeps import examples

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


copying_and_computing = without_and_with_each(
    "pk-flashinfer-lengths", ["0.5.11", "0.5.12.post1", "0.5.13.post1", "0.5.14", "0.5.18", "0.5.22"]
)
BATCHES = st.lists(
    st.fixed_dictionaries({
        "lens": st.lists(st.integers(1, CONTEXT - STEPS), min_size=1, max_size=3),
        "padding": st.integers(0, 2),
        "summed": st.booleans(),
        "mirror": st.sampled_from(["true", "true", "wrong", "none"]),
    }),
    min_size=1,
    max_size=8,
)  # fmt: skip


def is_known(batch: dict[str, Any]) -> bool:
    """Return whether the host knows a batch's positions: without padding, a length of 1 could be padding."""
    return bool(batch["mirror"] == "true" and (batch["padding"] > 0 or batch["lens"][-1] > 1))


@pytest.mark.parametrize("topk", [1, 4])
@examples(8)
@given(batches=BATCHES)
def test_a_draft_is_planned_from_the_same_offsets_and_the_host_waits_for_the_first_of_a_size_alone(
    copying_and_computing: tuple[DrivenTree, DrivenTree], topk: int, batches: list[dict[str, Any]]
) -> None:
    before, after = copying_and_computing
    case = {"topk": topk, "steps": STEPS, "context": CONTEXT}
    expected = before.ask("draft_rows.offsets", batches, {}, **case)
    assert [each["copies"] for each in expected] == [1] * len(batches)
    planned = after.ask("draft_rows.offsets", batches, {}, **case)
    assert [each["offsets"] for each in planned] == [each["offsets"] for each in expected]
    compared: set[tuple[int, bool]] = set()
    for batch, each in zip(batches, planned, strict=True):
        kind = (len(batch["lens"]) + batch["padding"], batch["padding"] > 0)
        assert each["copies"] == int(not is_known(batch) or kind not in compared)
        compared |= {kind} if is_known(batch) else set()
    off = after.ask("draft_rows.offsets", batches, {"PATCHKIT_DISABLE": "pk-flashinfer-lengths"}, **case)
    assert off == expected


def test_a_draft_whose_first_offsets_differ_is_planned_from_the_devices(
    copying_and_computing: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = copying_and_computing
    batches = [
        {"lens": [3, 9], "padding": 0, "summed": False, "mirror": mirror}
        for mirror in ("shifted", "true", "true")
    ]
    case = {"topk": 1, "steps": STEPS, "context": CONTEXT}
    assert after.ask("draft_rows.offsets", batches, {}, **case) == before.ask(
        "draft_rows.offsets", batches, {}, **case
    )
