"""Forward batches are alike in every tree where lengths are on the host, and the successor's where they are not."""

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
Trees = tuple[Any, ...]


@st.composite
def cases(draw: st.DrawFn, mode: str = "DECODE", *, mirror: bool = True, min_size: int = 1) -> Case:
    """A batch with or without the mirror; one that extends has its lengths on the same side."""
    lens = draw(st.lists(st.integers(1, 60), min_size=min_size, max_size=5))
    case: Case = {"mode": mode, "lens": lens, "mirror": mirror, "sum": mirror}
    if mode.endswith(("EXTEND", "EXTEND_V2")):
        extend = [draw(st.integers(1, length)) for length in lens]
        prefix = [length - own for length, own in zip(lens, extend, strict=True)]
        case |= {"extend": extend, "prefix": prefix, "on_device": not mirror}
    return case


MODES = st.sampled_from(["DECODE", "TARGET_VERIFY", "EXTEND", "DRAFT_EXTEND_V2", "IDLE"])


@examples(15)
@given(MODES.flatmap(cases))
def test_a_batch_with_its_lengths_on_the_host_is_alike_in_every_tree(every_tree: Trees, case: Case) -> None:
    made = [tree.ask("forward_batches.make", case) for tree in every_tree]
    assert made[0] == made[1] == made[2]
    assert made[1]["extend_seq_lens_cpu"] == (case.get("extend"))
    assert made[1]["extend_prefix_lens_cpu"] == (case.get("prefix"))


@examples(15)
@given(MODES.flatmap(lambda mode: cases(mode, mirror=False)))
def test_a_batch_with_its_lengths_on_the_device_is_the_successors_and_is_not_read(
    patched: DrivenTree, upstream: DrivenTree, case: Case
) -> None:
    made = [tree.ask("forward_batches.make", case) for tree in (patched, upstream)]
    assert made[0] == made[1]
    assert made[0]["reads"] == []
    assert (made[0]["extend_seq_lens_cpu"], made[0]["extend_prefix_lens_cpu"]) == (None, None)
    assert (made[0]["seq_lens_cpu"], made[0]["seq_lens_sum"]) == (None, None)


@pytest.mark.parametrize("mode", ["EXTEND", "DRAFT_EXTEND_V2"])
@examples(3)
@given(st.data())
def test_host_lengths_are_copied_without_a_wait_as_in_every_tree_and_device_lengths_are_not_copied(
    every_tree: Trees, mode: str, data: st.DataObject
) -> None:
    case = data.draw(cases(mode))
    copies = [tree.ask("forward_batches.make", case, "cuda")["copies"] for tree in every_tree]
    assert copies == [[(False, True), (False, True)]] * 3
    without = case | {"mirror": False, "sum": False, "on_device": True}
    for tree in every_tree[1:]:
        assert tree.ask("forward_batches.make", without, "cuda")["copies"] == []


def test_device_lengths_were_refused_before_and_anything_but_lists_and_tensors_still_is(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    case = {"mode": "EXTEND", "lens": [4], "mirror": True, "sum": True, "extend": [1], "prefix": [3]}
    with pytest.raises(ProbeError, match="AssertionError"):
        unpatched.ask("forward_batches.make", case | {"on_device": True})
    with pytest.raises(ProbeError, match="AssertionError"):
        patched.ask("forward_batches.make", case | {"as_tuples": True})


MULTIMODAL = st.sampled_from(["DECODE", "EXTEND", "DRAFT_EXTEND_V2"])
IMAGES = st.lists(st.none() | st.integers(-3, 8), min_size=5, max_size=5)


@examples(10)
@given(MULTIMODAL, st.data(), IMAGES)
def test_multimodal_positions_without_the_mirror_are_those_with_it(
    every_tree: Trees, hardened: DrivenTree, mode: str, data: st.DataObject, images: list[int | None]
) -> None:
    case = data.draw(cases(mode)) | {"mrope": True}
    case["images"] = images[: len(case["lens"])]
    without = case | {"mirror": False, "sum": False, "on_device": "extend" in case}
    unpatched, patched, upstream = every_tree
    for before, after in ((unpatched, patched), (upstream, hardened)):
        expected = before.ask("forward_batches.make", case)["mrope_positions"]
        assert after.ask("forward_batches.make", case)["mrope_positions"] == expected
        assert after.ask("forward_batches.make", without)["mrope_positions"] == expected


@pytest.mark.parametrize("mode", ["DECODE", "EXTEND"])
def test_the_successor_computes_no_multimodal_positions_without_the_mirror(
    upstream: DrivenTree, mode: str
) -> None:
    case = {"mode": mode, "lens": [4], "mirror": False, "sum": False, "mrope": True, "images": [None]}
    case |= {"extend": [1], "prefix": [3], "on_device": True} if mode == "EXTEND" else {}
    with pytest.raises(ProbeError, match="NoneType"):
        upstream.ask("forward_batches.make", case)


@examples(10)
@given(cases(), st.integers(0, 4), st.integers(0, 9))
def test_a_padded_batch_is_alike_in_every_tree_where_its_sum_is_known(
    every_tree: Trees, case: Case, more: int, fill_value: int
) -> None:
    ask = "forward_batches.pad", case, len(case["lens"]) + more, fill_value
    padded = [tree.ask(*ask) for tree in every_tree]
    assert padded[0] == padded[1] == padded[2]
    assert padded[1]["seq_lens_sum"] == sum(case["lens"]) + more * fill_value


@pytest.mark.parametrize("mirror", [True, False])
@examples(8)
@given(cases(), st.tuples(st.integers(0, 4), st.integers(0, 9)))
def test_a_padded_batch_of_an_unknown_sum_is_the_successors(
    patched: DrivenTree, upstream: DrivenTree, mirror: bool, case: Case, padding: tuple[int, int]
) -> None:
    more, fill_value = padding
    ask = "forward_batches.pad", case | {"mirror": mirror, "sum": False}, len(case["lens"]) + more, fill_value
    padded = [tree.ask(*ask) for tree in (patched, upstream)]
    assert padded[0] == padded[1]
    assert (padded[0]["seq_lens_sum"], padded[0]["reads"]) == (None, [])


GRAPH = pytest.mark.parametrize("graph", [True, False])


@GRAPH
@pytest.mark.parametrize("standalone", [True, False])
@examples(5)
@given(cases(), st.integers(1, 6))
def test_a_draft_extend_with_the_mirror_is_alike_in_every_tree(
    every_tree: Trees,
    graph: bool,
    standalone: bool,
    case: Case,
    stride: int,
) -> None:
    prepared = [
        tree.ask("forward_batches.prepare_draft_extend", case, stride, graph=graph, standalone=standalone)
        for tree in every_tree
    ]
    assert prepared[0] == prepared[1] == prepared[2]
    assert bool(prepared[1]["planned"]) is not graph


@GRAPH
@examples(8)
@given(cases(mirror=False), st.integers(1, 6))
def test_a_draft_extend_without_the_mirror_is_the_successors_and_nothing_is_read_for_it(
    patched: DrivenTree, upstream: DrivenTree, graph: bool, case: Case, stride: int
) -> None:
    ask = "forward_batches.prepare_draft_extend", case, stride
    prepared = [tree.ask(*ask, graph=graph) for tree in (patched, upstream)]
    assert prepared[0] == prepared[1]
    assert prepared[0]["extend_seq_lens_cpu"] == [stride] * len(case["lens"])
    assert prepared[0]["extend_prefix_lens"] == case["lens"]
    assert (prepared[0]["seq_lens_cpu"], prepared[0]["seq_lens_sum"]) == (None, None)
    assert prepared[0]["reads"] == []


@pytest.mark.parametrize("mirror", [True, False])
def test_an_idle_draft_extend_plans_nothing(patched: DrivenTree, upstream: DrivenTree, mirror: bool) -> None:
    case = {"mode": "IDLE", "lens": [], "mirror": mirror, "sum": mirror}
    ask = "forward_batches.prepare_draft_extend", case, 3
    prepared = [tree.ask(*ask, graph=False) for tree in (patched, upstream)]
    assert prepared[0]["mode"] == "IDLE"
    assert prepared[0]["planned"] == []
    assert prepared[0]["seq_lens"] == prepared[1]["seq_lens"] == []


def test_a_draft_extend_of_a_known_sum_without_a_mirror_keeps_the_sum_known(patched: DrivenTree) -> None:
    case = {"mode": "DECODE", "lens": [4, 6], "mirror": False, "sum": True}
    prepared = patched.ask("forward_batches.prepare_draft_extend", case, 3, graph=True)
    assert (prepared["seq_lens"], prepared["seq_lens_sum"]) == ([7, 9], 16)


@GRAPH
@pytest.mark.parametrize("mode", ["DECODE", "IDLE"])
@examples(4)
@given(st.data(), st.integers(1, 6))
def test_a_verify_with_the_mirror_is_given_the_same_in_every_tree(
    every_tree: Trees,
    graph: bool,
    mode: str,
    data: st.DataObject,
    tokens: int,
) -> None:
    case = data.draw(cases(mode))
    ask = "forward_batches.prepare_verify", case, tokens
    prepared = [tree.ask(*ask, graph=graph) for tree in every_tree]
    assert prepared[0] == prepared[1] == prepared[2]
    assert prepared[1]["input"] == ([case["lens"], sum(case["lens"])] if mode == "DECODE" else [None, None])


@GRAPH
@examples(5)
@given(cases(mirror=False), st.integers(1, 6))
def test_a_verify_without_the_mirror_is_the_successors_and_nothing_is_read_for_it(
    patched: DrivenTree, upstream: DrivenTree, graph: bool, case: Case, tokens: int
) -> None:
    ask = "forward_batches.prepare_verify", case, tokens
    prepared = [tree.ask(*ask, graph=graph) for tree in (patched, upstream)]
    assert prepared[0] == prepared[1]
    assert prepared[0]["input"] == [None, None]
    assert prepared[0]["reads"] == []


@pytest.mark.parametrize("mirror", [True, False])
def test_a_verify_of_a_request_that_has_no_slot_for_its_state_tracks_nothing_of_it(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, hardened: DrivenTree, mirror: bool
) -> None:
    case: Case = {"lens": [5, 6, 7], "mode": "DECODE", "mirror": mirror, "sum": mirror}

    def tracked(tree: DrivenTree, slots: list[int | None]) -> object:
        request = case | {"slots": slots}
        return tree.ask("forward_batches.prepare_verify", request, 2, graph=True)["tracked"]

    for before, after in ((unpatched, patched), (upstream, hardened)):
        assert tracked(after, [1, None, 0]) == [2, -1, 21]
        if mirror:
            assert tracked(after, [1, 1, 0]) == tracked(before, [1, 1, 0]) == [2, 12, 21]
            with pytest.raises(ProbeError, match="TypeError"):
                tracked(before, [1, None, 0])
