"""Spec-v2 workers: tree masks large enough without a host read, graphs for more backends, an early start-up check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.trees import ProbeError
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

LENS = st.lists(st.integers(1, 900), min_size=1, max_size=8)
BOTH = pytest.mark.parametrize("kind", ["eagle", "multi-layer"])
EVERY = pytest.mark.parametrize("kind", ["eagle", "multi-layer", "standalone"])


@BOTH
@examples(8)
@given(LENS, st.booleans(), st.booleans())
def test_a_known_sum_sizes_the_tree_mask_as_before(
    every_tree: tuple[Any, ...], kind: str, lens: list[int], preallocated: bool, graph: bool
) -> None:
    case = {"sum": True, "preallocated": preallocated, "graph": graph, "context": 1000}
    answers = [tree.ask("workers.draft", kind, lens, case) for tree in every_tree]
    assert answers[0] == answers[1] == answers[2]
    assert (answers[1]["total"], answers[1]["type"]) == (sum(lens), "int")


@examples(8)
@given(LENS, st.booleans(), st.booleans())
def test_an_unknown_sum_sizes_the_tree_mask_as_in_the_successor(
    patched: DrivenTree, upstream: DrivenTree, lens: list[int], preallocated: bool, graph: bool
) -> None:
    case = {"sum": False, "preallocated": preallocated, "graph": graph, "context": 1000}
    answers = [tree.ask("workers.draft", "eagle", lens, case) for tree in (patched, upstream)]
    if preallocated:
        # Nothing is sized then: upstream says 0, and patchkit the bound.
        assert [answer.pop("total") for answer in answers] == [1000 * len(lens), 0]
    assert answers[0] == answers[1]


@BOTH
@examples(8)
@given(LENS, st.booleans(), st.booleans())
def test_an_unknown_sum_is_bounded_and_nothing_is_read(
    patched: DrivenTree, kind: str, lens: list[int], preallocated: bool, graph: bool
) -> None:
    case = {"sum": False, "preallocated": preallocated, "graph": graph, "context": 1000}
    answer = patched.ask("workers.draft", kind, lens, case)
    assert (answer["total"], answer["type"]) == (1000 * len(lens), "int")
    assert answer["reads"] == []


BACKENDS = ["triton", "trtllm mla", "trtllm mha", "descendant", "flashinfer mla", "base", None]


def test_draft_extend_graphs_are_captured_for_trtllm_mha_too_and_for_all_as_before(
    every_tree: tuple[Any, ...],
) -> None:
    unpatched, patched, upstream = (tree.ask("workers.captured", BACKENDS) for tree in every_tree)
    assert unpatched == [True, True, False, False, False, False, False]
    assert patched == upstream == [True, True, True, True, False, False, False]


def test_no_draft_extend_graph_is_captured_without_cuda(every_tree: tuple[Any, ...]) -> None:
    for tree in every_tree:
        assert tree.ask("workers.captured", BACKENDS, cuda=False) == [False] * len(BACKENDS)


@EVERY
@pytest.mark.parametrize("target", ["triton", "trtllm mha", "trtllm mla", "hybrid"])
@pytest.mark.parametrize("plan_stream", [True, False])
def test_a_worker_starts_with_a_backend_that_has_the_overlap_hook(
    patched: DrivenTree, hardened: DrivenTree, kind: str, target: str, plan_stream: bool
) -> None:
    for tree in (patched, hardened):
        assert tree.ask("workers.start", kind, target, plan_stream=plan_stream) is plan_stream


@EVERY
def test_a_worker_without_a_plan_stream_starts_before_its_target_has_a_backend(
    patched: DrivenTree, hardened: DrivenTree, kind: str
) -> None:
    for tree in (patched, hardened):
        assert tree.ask("workers.start", kind, None, plan_stream=False) is False


@EVERY
@pytest.mark.parametrize("target", ["base", "flashinfer mla"])
def test_a_worker_with_a_plan_stream_refuses_to_start_with_a_backend_that_has_no_overlap_hook(
    every_tree: tuple[Any, ...], hardened: DrivenTree, kind: str, target: str
) -> None:
    unpatched, patched, upstream = every_tree
    for tree in (unpatched, upstream):
        assert tree.ask("workers.start", kind, target, plan_stream=True) is True
    for tree in (patched, hardened):
        with pytest.raises(ProbeError, match="cannot verify with the overlap plan stream") as caught:
            tree.ask("workers.start", kind, target, plan_stream=True)
        assert caught.value.kind == "RuntimeError"
        assert tree.ask("workers.start", kind, target, plan_stream=False) is False
        with pytest.raises(ProbeError, match="cannot verify with the overlap plan stream"):
            tree.ask("workers.start", kind, target, plan_stream=True, disaggregation="decode")
        # It never verifies.
        assert tree.ask("workers.start", kind, target, plan_stream=True, disaggregation="prefill") is True


@pytest.mark.parametrize("target", ["trtllm mha", "trtllm mla"])
def test_the_overlap_hook_of_trtllm_backends_changes_nothing(
    unpatched: DrivenTree, patched: DrivenTree, target: str
) -> None:
    with pytest.raises(ProbeError, match="NotImplementedError"):
        unpatched.ask("workers.call_hook", target)
    assert patched.ask("workers.call_hook", target) == []


@BOTH
@pytest.mark.parametrize("function", ["verify", "_draft_extend_for_decode"])
def test_a_plan_stream_waits_for_what_it_reads_before_anything_is_planned_on_it(
    upstream: DrivenTree, hardened: DrivenTree, kind: str, function: str
) -> None:
    assert upstream.ask("workers.plan", kind, function, plan_stream=True) == ["entered"]
    assert hardened.ask("workers.plan", kind, function, plan_stream=True) == ["waits", "entered"]
    assert hardened.ask("workers.plan", kind, function, plan_stream=False) == ["entered"]
