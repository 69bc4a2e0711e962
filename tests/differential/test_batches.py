"""Batches that lose requests or take others in: as before with the mirror, without a host wait without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with_each
from support.driven.trees import ProbeError
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

states_beside_none = without_and_with_each("pk-fa3-draft-extend-graph", ["0.5.13", "0.5.18", "0.5.22"])
LENS = st.lists(st.integers(1, 5000), min_size=1, max_size=6)
Step = tuple[str, Any]
Case = tuple[dict[str, Any], list[Step]]


@st.composite
def cases(draw: st.DrawFn, *, mirror: bool | None = None) -> Case:
    """A batch and what happens to it; ``mirror`` is whether all have one, None that each may or may not."""

    def described(first_row: int, *, futures: bool) -> dict[str, Any]:
        lens = draw(LENS)
        has_mirror = draw(st.booleans()) if mirror is None else mirror
        return {
            "lens": lens,
            "mirror": has_mirror,
            # With the mirror the sum is always known.
            "sum": True if mirror else draw(st.booleans()),
            "event": draw(st.booleans()),
            "done": draw(st.lists(st.booleans(), min_size=len(lens), max_size=len(lens))),
            "first_row": first_row,
            "futures": futures,
        }

    futures = draw(st.booleans())
    first = described(0, futures=futures)
    steps: list[Step] = []
    for number in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            kept = st.lists(st.integers(0, 8), max_size=5, unique=True).map(sorted)
            steps.append(("filter", draw(st.none() | kept)))
        else:
            steps.append(("merge", described(10 * (number + 1), futures=futures)))
    return first, steps


@examples(15)
@given(cases(mirror=True))
def test_with_the_mirror_batches_are_as_unpatched_in_all_they_do(
    unpatched: DrivenTree, patched: DrivenTree, case: Case
) -> None:
    assert patched.ask("batches.run_steps", True, *case) == unpatched.ask("batches.run_steps", True, *case)


def known(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what the successor does elsewhere: waits, and sums, which it takes when it is asked for them."""
    return [
        {name: answer[name] for name in answer if name not in ("sum", "waits", "reads")} for answer in answers
    ]


@examples(15)
@given(cases())
def test_without_the_mirror_batches_end_as_in_the_successor(
    patched: DrivenTree, upstream: DrivenTree, case: Case
) -> None:
    answers = patched.ask("batches.run_steps", False, *case)
    assert known(answers) == known(upstream.ask("batches.run_steps", False, *case))
    for answer in answers:
        assert answer["sum"] in (None, sum(answer["lens"]))
        assert answer["reads"] == []
        assert all(wait.endswith(".wait") for wait in answer["waits"])


@pytest.mark.parametrize("needed", [True, False])
@examples(10)
@given(LENS, LENS, st.tuples(st.booleans(), st.booleans()))
def test_a_merged_batch_has_its_sum_where_both_sides_do(
    patched: DrivenTree, needed: bool, lens: list[int], others: list[int], sums: tuple[bool, bool]
) -> None:
    ours, theirs = sums
    first = {"lens": lens, "mirror": True, "sum": ours}
    second = {"lens": others, "mirror": True, "sum": theirs}
    (answer,) = patched.ask("batches.run_steps", needed, first, [("merge", second)])
    assert answer["sum"] == (sum(lens + others) if ours and theirs else None)
    assert answer["mirror"] == lens + others


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("theirs", [True, False])
def test_a_merged_batch_has_a_mirror_where_both_sides_do(
    patched: DrivenTree, upstream: DrivenTree, ours: bool, theirs: bool
) -> None:
    case = (
        {"lens": [3], "mirror": ours, "sum": True},
        [("merge", {"lens": [4], "mirror": theirs, "sum": True})],
    )
    (answer,), (expected,) = (tree.ask("batches.run_steps", False, *case) for tree in (patched, upstream))
    assert answer["mirror"] == expected["mirror"] == ([3, 4] if ours and theirs else None)


BATCH = {"lens": [3, 5, 7], "mirror": True, "sum": True, "event": True}


@pytest.mark.parametrize(
    ("kept", "waits"),
    [
        pytest.param([], [], id="all requests are lost"),
        pytest.param([0, 1, 2], [], id="none is lost"),
        pytest.param([1], ["a.wait"], id="some are lost"),
    ],
)
def test_without_the_mirror_only_a_batch_that_loses_some_requests_has_its_stream_wait(
    patched: DrivenTree, kept: list[int], waits: list[str]
) -> None:
    case = BATCH, [("filter", kept)]
    (answer,) = patched.ask("batches.run_steps", False, *case)
    assert answer["waits"] == waits
    (answer,) = patched.ask("batches.run_steps", True, *case)
    assert answer["waits"] == ["a.synchronize"]


def test_a_batch_that_loses_requests_does_not_sum_on_the_host_without_the_mirror(patched: DrivenTree) -> None:
    case = BATCH, [("filter", [0, 2])]
    (without,) = patched.ask("batches.run_steps", False, *case)
    assert (without["sum"], without["mirror"], without["reads"]) == (None, [3, 7], [])
    (with_mirror,) = patched.ask("batches.run_steps", True, *case)
    assert (with_mirror["sum"], with_mirror["mirror"], with_mirror["reads"]) == (10, [3, 7], ["item"])


def test_a_merge_waits_for_both_sides_without_the_mirror_and_for_its_own_with_it(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    case = BATCH, [("merge", BATCH)]
    (without,) = patched.ask("batches.run_steps", False, *case)
    assert without["waits"] == ["a.wait", "b0-.wait"]
    (with_mirror,) = patched.ask("batches.run_steps", True, *case)
    (before,) = unpatched.ask("batches.run_steps", True, *case)
    assert with_mirror["waits"] == before["waits"] == ["a.synchronize"]


@pytest.mark.parametrize("event", [True, False])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_verify_is_waited_for_on_the_host_only_where_it_reads_the_lengths(
    unpatched: DrivenTree, patched: DrivenTree, event: bool, overlap: bool
) -> None:
    described = {**BATCH, "event": event, "overlap": overlap}
    there = event and overlap
    assert patched.ask("batches.wait", False, described) == (["a.wait"] if there else [])
    waits = patched.ask("batches.wait", True, described)
    assert waits == unpatched.ask("batches.wait", True, described) == (["a.synchronize"] if there else [])


def test_requests_with_hidden_states_beside_some_without_go_on_without_any(
    states_beside_none: tuple[DrivenTree, DrivenTree],
) -> None:
    """After a draft-extend in a graph a draft that needs none has them, and after a prefill it has not."""
    before, after = states_beside_none
    for sides in ((True, False), (False, True)):
        assert after.ask("batches.merged_drafts", *sides, [1, 3]) == [[[1], [3]], None]
    with pytest.raises(ProbeError, match="IndexError"):
        before.ask("batches.merged_drafts", True, False, [1, 3])
    for tree in (before, after):
        assert tree.ask("batches.merged_drafts", True, True, [1, 3]) == [[[1], [3]], [[1], [3]]]
