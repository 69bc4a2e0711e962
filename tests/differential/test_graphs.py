"""Replays of captured graphs: padded as before, no sum or mirror made up, no top-k that nobody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.trees import ProbeError
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Case = dict[str, Any]
SIZES = (1, 2, 4, 8)
STALE = 77
RUNNERS = {
    "target": ("graphs.target", ()),
    "draft-extend v1": ("graphs.draft_extend", ("DRAFT_EXTEND",)),
    "draft-extend v2": ("graphs.draft_extend", ("DRAFT_EXTEND_V2",)),
    "multi-layer": ("graphs.multi_layer_draft_extend", ()),
}
EACH = pytest.mark.parametrize("runner", list(RUNNERS))


@st.composite
def cases(draw: st.DrawFn, *, mirror: bool | None = True, total: bool | None = True) -> Case:
    """A batch that a graph takes, padded by its own size or by that of the widest rank."""
    lens = draw(st.lists(st.integers(1, 900), min_size=1, max_size=SIZES[-1]))
    case: Case = {
        "lens": lens,
        "mirror": draw(st.booleans()) if mirror is None else mirror,
        "sum": draw(st.booleans()) if total is None else total,
        "topk": True,
        "fill": draw(st.sampled_from([0, 1, 3])),
    }
    if draw(st.booleans()):
        case["widest"] = draw(st.integers(len(lens), SIZES[-1]))
    return case


TOKENS = st.integers(1, 5)


def replay(tree: Any, runner: str, case: Case, tokens: int) -> dict[str, Any]:
    probe, more = RUNNERS[runner]
    answer: dict[str, Any] = tree.ask(probe, case, tokens, *more)
    return answer


def padded(case: Case) -> int:
    return next(size for size in SIZES if size >= case.get("widest", len(case["lens"])))


@EACH
@examples(8)
@given(cases(), TOKENS)
def test_a_replay_with_the_mirror_is_as_unpatched(
    unpatched: DrivenTree, patched: DrivenTree, runner: str, case: Case, tokens: int
) -> None:
    before, answer = (replay(tree, runner, case, tokens) for tree in (unpatched, patched))
    if runner == "draft-extend v2":
        # Nobody reads these: the worker computes top-k for the rows that it selects.
        rows = len(case["lens"]) * tokens
        assert len(before["out"].pop("topk_p")) == len(before["out"].pop("topk_index")) == rows
        assert answer["out"].pop("topk_p") is answer["out"].pop("topk_index") is None
    assert answer == before
    extra = padded(case) - len(case["lens"])
    assert (answer["bs"], answer["seq_lens_sum"]) == (padded(case), sum(case["lens"]) + extra * case["fill"])


@EACH
@examples(8)
@given(cases(mirror=None, total=None), TOKENS)
def test_a_replay_passes_no_sum_and_no_mirror_that_the_batch_lacks(
    patched: DrivenTree, hardened: DrivenTree, runner: str, case: Case, tokens: int
) -> None:
    extra = padded(case) - len(case["lens"])
    for tree in (patched, hardened):
        answer = replay(tree, runner, case, tokens)
        assert answer["bs"] == padded(case)
        assert answer["seq_lens_sum"] == (sum(case["lens"]) + extra * case["fill"] if case["sum"] else None)
        mirror = answer["seq_lens_cpu"]
        if case["mirror"]:
            assert mirror[: padded(case)] == case["lens"] + extra * [case["fill"]]
        else:
            assert mirror is None
        assert answer["reads"] == []


@EACH
@examples(5)
@given(cases(), TOKENS)
def test_a_replay_with_the_mirror_is_as_the_successors_own(
    upstream: DrivenTree, hardened: DrivenTree, runner: str, case: Case, tokens: int
) -> None:
    before, answer = (replay(tree, runner, case, tokens) for tree in (upstream, hardened))
    assert answer["seq_lens_cpu"] == before["seq_lens_cpu"]
    assert answer == before


@EACH
@examples(8)
@given(cases(mirror=None, total=None), TOKENS)
def test_a_replay_is_the_successors_but_for_a_mirror_that_an_earlier_one_left(
    patched: DrivenTree, upstream: DrivenTree, runner: str, case: Case, tokens: int
) -> None:
    if runner == "multi-layer":
        # The successor's sums there without asking whether it is known.
        case["sum"] = True
    answer, expected = (replay(tree, runner, case, tokens) for tree in (patched, upstream))
    for result in (answer, expected):
        # The successor clears the rows that it pads.
        result.get("buffers", {}).pop("req_pool_indices", None)
    if not case["mirror"]:
        # The successor hands on what its buffer held before.
        assert set(expected.pop("seq_lens_cpu")) == {STALE}
        assert answer.pop("seq_lens_cpu") is None
    assert answer == expected


def test_a_multi_layer_replay_of_an_unknown_sum_is_an_error_in_the_successor(upstream: DrivenTree) -> None:
    case = {"lens": [3], "mirror": False, "sum": False, "topk": True}
    with pytest.raises(ProbeError, match="TypeError"):
        replay(upstream, "multi-layer", case, 2)


def test_a_replay_takes_no_top_k_from_a_v2_graph_that_has_none(patched: DrivenTree) -> None:
    case = {"lens": [3, 4, 5], "mirror": True, "sum": True, "topk": False}
    assert replay(patched, "draft-extend v2", case, 2)["out"]["hidden"] == 6
    with pytest.raises(ProbeError, match="topk_p"):
        replay(patched, "draft-extend v1", case, 2)


@pytest.mark.parametrize("topk", [1, 3])
@pytest.mark.parametrize("base", ["unpatched", "upstream"])
def test_a_captured_v2_draft_extend_computes_no_top_k_and_one_of_v1_does_as_before(
    request: pytest.FixtureRequest, base: str, topk: int
) -> None:
    before: DrivenTree = request.getfixturevalue(base)
    after: DrivenTree = request.getfixturevalue({"unpatched": "patched", "upstream": "hardened"}[base])
    v1 = after.ask("graphs.capture", "DRAFT_EXTEND", topk)
    assert v1 == before.ask("graphs.capture", "DRAFT_EXTEND", topk)
    assert v1["rows"] == 2
    assert before.ask("graphs.capture", "DRAFT_EXTEND_V2", topk)["rows"] == 6
    assert after.ask("graphs.capture", "DRAFT_EXTEND_V2", topk) == {"calls": [], "rows": None}


@st.composite
def drafts(draw: st.DrawFn) -> Case:
    """A batch that a draft's graph takes, whose lengths have the buffers' dtype or a wider one."""
    return draw(cases(mirror=None)) | {"wide": draw(st.booleans())}


@examples(8)
@given(st.lists(st.tuples(drafts(), st.integers(1, 3)), min_size=3))
def test_a_drafts_copies_leave_every_buffer_as_the_trees_own_did(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, hardened: DrivenTree, drawn: Any
) -> None:
    for before, after in ((unpatched, patched), (upstream, hardened)):
        expected, answers = (tree.ask_many("graphs.draft", drawn) for tree in (before, after))
        for result in (*expected, *answers):
            del result["copies"]
        assert answers == expected
    assert all(answer["reads"] == [] for answer in answers)


@examples(8)
@given(cases(), TOKENS, st.sets(st.sampled_from(["counted", "extends"])))
def test_a_draft_extends_copies_leave_out_what_the_batch_has_not(
    unpatched: DrivenTree, patched: DrivenTree, case: Case, tokens: int, lacking: set[str]
) -> None:
    case |= dict.fromkeys(lacking, False)
    before, answer = (
        replay(tree, "draft-extend v2", case, tokens)["buffers"] for tree in (unpatched, patched)
    )
    assert answer == before
    count = len(case["lens"])
    if "counted" not in lacking:
        assert answer["num_accept_tokens"][:count] == [2] * count


def test_small_copies_take_one_launch_for_each_pair_of_dtypes_unless_that_is_switched_off(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    case = {"lens": [3, 4], "mirror": False, "sum": True, "topk": True, "wide": True}
    for probe, before, pairs in (("graphs.draft", 6, 3), ("graphs.draft_extend_copies", 8, 3)):

        def copies(tree: DrivenTree, *more: str, probe: str = probe) -> list[str]:
            answer = tree.ask(probe, case, 1, *more)
            found: list[str] = answer["copies"] if isinstance(answer, dict) else answer
            return found

        # The hidden states keep a copy of their own.
        assert copies(unpatched) == ["copy_"] * (before + 1)
        assert len(copies(patched)) == pairs + 1
        assert copies(patched, "28465") == ["copy_"] * (before + 1)
