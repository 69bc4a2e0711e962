"""Metrics of a decode batch: from the mirror as before, from the requests without one, never from the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.trees import ProbeError
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

LENS = st.lists(st.integers(2, 5000), min_size=1, max_size=8)
Trees = tuple[Any, ...]
CASE = {"mode": "DECODE", "lens": [4, 9], "mirror": "none"}


def spread(lens: list[int]) -> float:
    mean = sum(lens) / len(lens)
    return sum((length - mean) ** 2 for length in lens) / len(lens)


@examples(10)
@given(LENS, st.sampled_from(["DECODE", "MIXED", "EXTEND", "IDLE"]), st.integers(0, 8))
def test_forward_pass_metrics_of_a_batch_with_the_mirror_are_alike_in_every_tree(
    every_tree: Trees, lens: list[int], mode: str, decoding: int
) -> None:
    case = {"mode": mode, "lens": lens, "mirror": "tensor", "decoding": decoding}
    built = [tree.ask("metrics.forward_pass", case) for tree in every_tree]
    assert built[0] == built[1] == built[2]


@pytest.mark.parametrize("mirror", ["tensor", "list", "none"])
@examples(8)
@given(LENS)
def test_forward_pass_metrics_are_of_the_mirrors_lengths_or_of_the_requests(
    patched: DrivenTree, hardened: DrivenTree, mirror: str, lens: list[int]
) -> None:
    case = {"mode": "DECODE", "lens": lens, "mirror": mirror}
    known = lens if mirror == "none" else [length + 1 for length in lens]
    for built in (patched.ask("metrics.forward_pass", case), hardened.ask("metrics.forward_pass", case)):
        assert built["num_decode_requests"] == len(lens)
        assert built["sum_decode_kv_tokens"] == sum(known)
        assert built["var_decode_kv_tokens"] == pytest.approx(spread(known))
        assert built["reads"] == []


def test_forward_pass_metrics_without_the_mirror_are_an_error_in_the_successor(upstream: DrivenTree) -> None:
    with pytest.raises(ProbeError, match="TypeError: 'NoneType' object is not iterable"):
        upstream.ask("metrics.forward_pass", CASE)


@pytest.mark.parametrize("mirror", ["tensor", "none"])
@examples(8)
@given(LENS, st.integers(0, 64))
def test_estimated_work_is_the_successors(
    patched: DrivenTree, upstream: DrivenTree, mirror: str, lens: list[int], tokens: int
) -> None:
    case = {"mode": "DECODE", "lens": lens, "mirror": mirror}
    answers = [tree.ask("metrics.estimate", case, tokens) for tree in (patched, upstream)]
    assert answers[0] == answers[1]
    assert answers[0]["reads"] == []
    total = sum(lens) + (len(lens) if mirror == "tensor" else 0)
    assert answers[0]["work"][0] == (tokens + 10 * total if tokens else 0)


@examples(8)
@given(LENS, st.integers(0, 64))
def test_estimated_work_and_total_with_the_mirror_are_as_unpatched(
    unpatched: DrivenTree, patched: DrivenTree, lens: list[int], tokens: int
) -> None:
    case = {"mode": "DECODE", "lens": lens, "mirror": "tensor"}
    before, answer = (tree.ask("metrics.estimate", case, tokens) for tree in (unpatched, patched))
    assert before == answer
    before, answer = (tree.ask("metrics.decode_total", case) for tree in (unpatched, patched))
    assert before == answer


@pytest.mark.parametrize("mirror", ["tensor", "none"])
@examples(8)
@given(LENS)
def test_the_reported_total_of_a_decode_batch_is_the_successors(
    patched: DrivenTree, upstream: DrivenTree, mirror: str, lens: list[int]
) -> None:
    case = {"mode": "DECODE", "lens": lens, "mirror": mirror}
    answers = [tree.ask("metrics.decode_total", case) for tree in (patched, upstream)]
    assert answers[0] == answers[1]
    total = sum(lens) + (len(lens) if mirror == "tensor" else 0)
    assert answers[0] == {"total": total, "type": "int", "reads": []}
