"""A decode step's lengths: the successor's numbers, the mirror where it is needed, no host wait where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree


@st.composite
def steps(draw: st.DrawFn, min_size: int = 0) -> dict[str, Any]:
    """A batch after a verify, from none to a few requests."""
    lens = draw(st.lists(st.integers(1, 5000), min_size=min_size, max_size=6))
    accepted = draw(st.lists(st.integers(1, 4), min_size=len(lens), max_size=len(lens)))
    slack = draw(st.lists(st.integers(-4, 12), min_size=len(lens), max_size=len(lens)))
    mirror = draw(st.booleans())
    return {
        "batch": {"lens": lens, "mirror": mirror, "sum": mirror, "event": draw(st.booleans())},
        "advanced": [length + more for length, more in zip(lens, accepted, strict=True)],
        "kept": [[max(length + more, 1), length] for length, more in zip(lens, slack, strict=True)],
        "page_size": draw(st.sampled_from([1, 16])),
        "steps": draw(st.integers(1, 5)),
        "published": draw(st.booleans()),
    }


EMPTY = {
    "batch": {"lens": [], "mirror": True, "sum": True},
    "advanced": [],
    "kept": [],
    "page_size": 1,
    "steps": 3,
    "published": True,
}
RESULTS = ("lens", "mirror", "sum", "requests", "calls")


@pytest.mark.parametrize("needed", [True, False])
@examples(10)
@given(steps())
@example(EMPTY)
def test_after_a_decode_step_lengths_mirror_and_sum_are_the_successors(
    patched: DrivenTree, upstream: DrivenTree, needed: bool, case: dict[str, Any]
) -> None:
    answer, expected = (tree.ask("lengths.decode_step", needed, case) for tree in (patched, upstream))
    for name in RESULTS:
        assert answer[name] == expected[name]
    assert answer["mirror"] == (case["advanced"] if needed else None)
    assert answer["sum"] == (sum(case["advanced"]) if needed else None)


@examples(10)
@given(steps())
@example(EMPTY)
def test_with_the_mirror_a_decode_step_is_as_unpatched_in_all_it_does(
    unpatched: DrivenTree, patched: DrivenTree, case: dict[str, Any]
) -> None:
    answers = [tree.ask("lengths.decode_step", True, case) for tree in (unpatched, patched)]
    assert answers[0] == answers[1]
    assert answers[1]["reads"] == ["cpu"]
    assert answers[1]["waits"] == (["a.synchronize"] if case["batch"].get("event") else [])


@examples(10)
@given(steps())
def test_without_the_mirror_a_decode_step_reads_nothing_and_only_the_stream_waits(
    patched: DrivenTree, case: dict[str, Any]
) -> None:
    answer = patched.ask("lengths.decode_step", False, case)
    assert answer["reads"] == []
    assert answer["waits"] == (["a.wait"] if case["batch"]["event"] else [])


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("needed", [True, False])
@examples(3)
@given(steps(min_size=1))
def test_allocated_lengths_go_to_the_device_by_copies_that_the_host_does_not_wait_for(
    unpatched: DrivenTree, patched: DrivenTree, page_size: int, needed: bool, case: dict[str, Any]
) -> None:
    case["page_size"] = page_size
    before, answer = (tree.ask("lengths.decode_step", needed, case, "cuda") for tree in (unpatched, patched))
    count = 2 if page_size == 1 else 4
    assert before["copies"] == [(False, False)] * count
    assert answer["copies"] == [(False, True)] * count
    assert (answer["calls"], answer["requests"]) == (before["calls"], before["requests"])


@pytest.mark.parametrize("algorithm", [None, "EAGLE"])
@pytest.mark.parametrize("needed", [True, False, None])
def test_a_future_map_is_as_unpatched_but_has_the_flag_of_the_mirror(
    unpatched: DrivenTree, patched: DrivenTree, needed: bool | None, algorithm: str | None
) -> None:
    keywords = {} if needed is None else {"needs_cpu_seq_lens": needed}
    ask = {"algorithm": algorithm}
    made = patched.ask("lengths.new_map", keywords, **ask)
    assert made.pop("needs_cpu_seq_lens") == str(needed is not False)
    assert made == unpatched.ask("lengths.new_map", {}, **ask)


@pytest.mark.parametrize("keywords", [{}, {"needs_cpu_seq_lens": True}, {"needs_cpu_seq_lens": False}])
def test_the_flag_of_a_future_map_has_the_successors_name(
    patched: DrivenTree, upstream: DrivenTree, keywords: dict[str, bool]
) -> None:
    ask = {"algorithm": "EAGLE"}
    answers = [tree.ask("lengths.new_map", keywords, **ask) for tree in (patched, upstream)]
    assert answers[0]["needs_cpu_seq_lens"] == answers[1]["needs_cpu_seq_lens"]


def test_a_map_that_needs_no_mirror_has_no_buffers_for_it(upstream: DrivenTree, hardened: DrivenTree) -> None:
    kept = {"pinned": True, "stream": True}
    assert upstream.ask("lengths.mirror_buffers", False) == kept
    assert hardened.ask("lengths.mirror_buffers", True) == kept
    assert hardened.ask("lengths.mirror_buffers", False) == {"pinned": False, "stream": False}
