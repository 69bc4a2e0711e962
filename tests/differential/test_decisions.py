"""Which servers keep the mirror: as upstream's release decides where it does, and kept where that is unknown."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.trees import DEFAULT, ProbeError, with_patches
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

KINDS = (
    *(None, "undeclared", "reads", "opted out", "base", "hybrid", "two-batch", "flashinfer mla"),
    *("triton", "triton draft", "trtllm mla", "trtllm mla draft", "trtllm mha"),
)
OPTED_OUT = (None, "opted out", "triton", "triton draft", "trtllm mla", "trtllm mla draft")
FREE = {"enable_two_batch_overlap": False, "disable_piecewise_cuda_graph": True}
FLAGS = [dict(zip(FREE, each, strict=True)) for each in itertools.product([True, False], repeat=2)]
LATER = "28633,pk-hybrid-opt-out"
"""Patches that decide otherwise than the successor did; a later upstream does as they do."""
Slots = list[str | None]


def test_each_class_of_backends_declares_what_the_successors_does(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    declared = patched.ask("decisions.declared")
    assert declared == upstream.ask("decisions.declared")
    assert set(declared.values()) == {True, False}
    assert set(unpatched.ask("decisions.declared").values()) == {None}


def test_each_pair_of_backends_is_decided_as_by_the_successor(
    patched: DrivenTree, upstream: DrivenTree
) -> None:
    requests = [(FREE, list(pair)) for pair in itertools.combinations_with_replacement(KINDS, 2)]
    decided = patched.ask("decisions.decide", requests, disable=LATER)
    assert decided == upstream.ask("decisions.decide", requests)
    assert decided == [not set(pair) <= set(OPTED_OUT) for _, pair in requests]
    answering = {*OPTED_OUT, "hybrid"}
    assert patched.ask("decisions.decide", requests) == [not set(pair) <= answering for _, pair in requests]


@examples(10)
@given(st.lists(st.sampled_from(KINDS), max_size=5))
def test_each_setting_of_the_server_is_decided_as_by_the_successor(
    patched: DrivenTree, upstream: DrivenTree, slots: Slots
) -> None:
    requests = [(flags, slots) for flags in FLAGS]
    decided = patched.ask("decisions.decide", requests, disable=LATER)
    assert decided == upstream.ask("decisions.decide", requests)
    assert decided == [flags != FREE or not set(slots) <= set(OPTED_OUT) for flags in FLAGS]


@examples(5)
@given(st.lists(st.sampled_from(KINDS), max_size=5))
def test_piecewise_graphs_no_longer_count_and_n_gram_and_breakable_graphs_do(
    patched: DrivenTree, hardened: DrivenTree, slots: Slots
) -> None:
    launches: list[dict[str, object]] = [
        {**flags, **more}
        for flags in FLAGS
        for more in (
            {},
            {"speculative_algorithm": None},
            {"speculative_algorithm": "EAGLE"},
            {"speculative_algorithm": "ngram"},
            {"enable_breakable_cuda_graph": True},
        )
    ]
    reads = not set(slots) <= {*OPTED_OUT, "hybrid"}
    expected = [
        reads
        or bool(settings["enable_two_batch_overlap"])
        or settings.get("speculative_algorithm") == "ngram"
        or "enable_breakable_cuda_graph" in settings
        for settings in launches
    ]
    requests = [(settings, slots) for settings in launches]
    assert patched.ask("decisions.decide", requests) == expected
    # The one whose decision is upstream's own.
    assert hardened.ask("decisions.decide", requests) == expected


def test_a_backend_with_its_patch_disabled_keeps_the_mirror(
    patched: DrivenTree, opted_out: DrivenTree
) -> None:
    for tree, slots, patch in (
        (patched, ["triton", "triton draft"], "26128"),
        (patched, ["trtllm mla", "trtllm mla draft"], "26824"),
        (patched, ["hybrid"], "pk-hybrid-opt-out"),
        (opted_out, ["trtllm mha"], "pk-trtllm-mha-opt-out"),
    ):
        request = [(FREE, slots)]
        assert tree.ask("decisions.decide", request) == [False]
        assert tree.ask("decisions.decide", request, disable=patch) == [True], patch


def test_the_decision_and_its_backends_are_logged_once(patched: DrivenTree) -> None:
    def logged(slots: Slots, flags: dict[str, bool], disable: str = "") -> str:
        *warned, line = patched.ask("decisions.start", "eagle", slots, flags, disable=disable)["logged"]
        assert warned == [] or (len(warned) == 1 and "26824, which does not change" in warned[0])
        return str(line)

    message = logged(SLOTS, FREE)
    assert "is not kept; patches in the tree: " in message
    assert ", 26128, " in message
    assert "PATCHKIT_DISABLE" not in message
    assert "is kept for TritonAttnBackend" not in message
    assert "is kept for two-batch overlap" in logged(SLOTS, FREE | {"enable_two_batch_overlap": True})
    piecewise = FREE | {"disable_piecewise_cuda_graph": False}
    assert "is not kept" in logged(SLOTS, piecewise)
    off = logged(SLOTS, piecewise, disable="28633, 26824")
    assert "is kept for piecewise CUDA graphs" in off
    assert off.endswith("; PATCHKIT_DISABLE=26824,28633")


def test_an_unknown_switch_stops_the_server(patched: DrivenTree) -> None:
    with pytest.raises(
        ProbeError, match="ValueError: PATCHKIT_DISABLE names 2612, which cannot be turned off"
    ):
        patched.ask("decisions.start", "eagle", SLOTS, FREE, disable="26128,2612")


@pytest.mark.parametrize("missing", ["enable_two_batch_overlap"])
def test_a_server_without_a_setting_keeps_the_mirror(
    patched: DrivenTree, upstream: DrivenTree, missing: str
) -> None:
    flags = {name: value for name, value in FREE.items() if name != missing}
    # The successor has every such setting, and asks without looking.
    with pytest.raises(ProbeError, match="AttributeError"):
        upstream.ask("decisions.decide", [(flags, ["opted out"])])
    assert patched.ask("decisions.decide", [(flags, ["opted out"])]) == [True]


@pytest.mark.parametrize(
    ("kind", "named", "more"),
    [
        ("eagle", ["target", "draft", "extend"], ["eager"]),
        ("standalone", ["target", "draft", "extend"], ["eager"]),
        ("multi-layer", ["target", "extend", "second extend"], []),
    ],
)
def test_a_worker_names_the_backends_that_the_successors_does_and_the_one_of_an_eager_draft_extend(
    every_tree: tuple[DrivenTree, ...], hardened: DrivenTree, kind: str, named: list[str], more: list[str]
) -> None:
    _, patched, upstream = every_tree
    assert upstream.ask("decisions.named", kind) == named
    for tree in (patched, hardened):
        assert tree.ask("decisions.named", kind) == [*named, *more]


@pytest.mark.parametrize("eager", ["two-batch", "reads", "undeclared", "triton"])
def test_a_backend_of_eager_draft_extends_that_reads_the_mirror_keeps_it(
    patched: DrivenTree, hardened: DrivenTree, eager: str
) -> None:
    for tree in (patched, hardened):
        result = tree.ask("decisions.start", "eagle", SLOTS, FREE, eager=eager)
        assert result["map"] is (eager != "triton")


def test_a_worker_that_names_no_draft_backends_has_an_unknown_one(
    patched: DrivenTree, upstream: DrivenTree
) -> None:
    # The successor takes the target's word for all of them.
    assert upstream.ask("decisions.named", "silent") == ["target"]
    assert patched.ask("decisions.named", "silent") == ["target", "other"]


@pytest.mark.parametrize("kind", ["eagle", "standalone", "multi-layer"])
@pytest.mark.parametrize("reader", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("flags", FLAGS)
def test_the_future_map_and_batches_get_the_flag_of_the_successor(
    patched: DrivenTree, upstream: DrivenTree, kind: str, reader: int | None, flags: dict[str, bool]
) -> None:
    slots: Slots = ["triton", "triton draft", "triton", "triton"]
    if reader is not None:
        slots[reader] = "reads"
    result = patched.ask("decisions.start", kind, slots, flags, disable=LATER)
    expected = upstream.ask("decisions.start", kind, slots, flags)
    assert result["map"] == expected["map"]
    assert result["batches"] == result["map"]
    assert result["records"] == expected["records"] == 0


SLOTS: Slots = ["triton", "triton draft", "triton", None]


@pytest.mark.parametrize("kind", ["silent", "unrelated"])
def test_a_worker_without_the_flag_keeps_the_mirror(
    patched: DrivenTree, upstream: DrivenTree, kind: str
) -> None:
    # The successor takes the target's word for such a worker.
    assert upstream.ask("decisions.start", kind, SLOTS, FREE)["map"] is False
    result = patched.ask("decisions.start", kind, SLOTS, FREE)
    assert (result["map"], result["batches"]) == (True, True)


@pytest.mark.parametrize("kind", ["eagle", "multi-layer"])
def test_a_server_that_overlaps_the_plan_stream_keeps_the_mirror(
    patched: DrivenTree, upstream: DrivenTree, kind: str
) -> None:
    # The successor orders that stream by events; here the host's wait is what orders it.
    assert upstream.ask("decisions.start", kind, SLOTS, FREE, plan_stream=True)["map"] is False
    result = patched.ask("decisions.start", kind, SLOTS, FREE, plan_stream=True)
    assert (result["map"], result["batches"]) == (True, True)


@pytest.mark.parametrize("target", ["triton", "reads", None])
def test_plain_decoding_keeps_the_mirror_whatever_flag_its_map_has(
    patched: DrivenTree, upstream: DrivenTree, target: str | None
) -> None:
    result, expected = (tree.ask("decisions.start", None, [target], FREE) for tree in (patched, upstream))
    assert result["map"] == expected["map"] == (target == "reads")
    assert result["batches"] is True


@pytest.mark.parametrize("version", ["0.5.12.post1", "0.5.13", "0.5.14"])
def test_a_server_without_speculation_logs_what_its_batches_are_told(
    releases: Releases, version: str
) -> None:
    tree = with_patches(releases, "patched", DEFAULT, version)
    started = tree.ask("decisions.start", None, ["triton"], FREE)
    (line,) = started["logged"]
    assert "is kept for decoding without speculation; " in line
    assert started["batches"] in (True, None)


@pytest.mark.parametrize("version", ["0.5.12.post1", "0.5.13", "0.5.14", "0.5.18"])
def test_a_disabled_patch_keeps_the_mirror_whoever_made_it_optional(releases: Releases, version: str) -> None:
    # A tree with every default patch takes as long as ten with a few, and other tests have none of 0.5.18.
    patches = ("26128", "26824") if version == "0.5.18" else DEFAULT
    tree = with_patches(releases, "patched", patches, version)
    mla: Slots = ["trtllm mla", "trtllm mla draft", "trtllm mla", "trtllm mla"]
    servers: list[tuple[Slots, str]] = [(SLOTS, "26128"), (mla, "26824")]
    # In 0.5.18 its constructor, which this server does not run, sets the flag.
    servers += [] if version == "0.5.18" else [(["hybrid", *SLOTS[1:]], "pk-hybrid-opt-out")]
    for slots, patch in servers:
        started = tree.ask("decisions.start", "eagle", slots, FREE)
        assert started["map"] is False, (version, slots)
        assert [" is not kept; " in line for line in started["logged"]] == [True]
        started = tree.ask("decisions.start", "eagle", slots, FREE, disable=patch)
        assert started["map"] is True, (version, patch)
        (line,) = started["logged"]
        assert f" is kept for PATCHKIT_DISABLE={patch}; " in line


@pytest.mark.parametrize("version", ["0.5.12.post1", "0.5.14"])
def test_a_disabled_patch_that_changes_nothing_is_named_in_a_warning(
    releases: Releases, version: str
) -> None:
    tree = with_patches(releases, "patched", DEFAULT, version)
    started = tree.ask("decisions.start", "eagle", SLOTS, FREE, disable="26824,pk-hybrid-opt-out")
    assert started["map"] is False
    warning, line = started["logged"]
    assert "PATCHKIT_DISABLE names 26824, pk-hybrid-opt-out, which does not change whether" in warning
    assert "the CPU mirror is kept: no backend" in warning
    assert " is not kept; " in line
    alone = tree.ask("decisions.start", None, ["triton"], FREE, disable="26128")
    assert (
        "names 26128, which does not change whether the CPU mirror is kept: this server does not speculate."
        in alone["logged"][0]
    )


def test_a_disabled_patch_keeps_the_mirror_in_a_release_whose_decision_takes_no_settings(
    releases: Releases,
) -> None:
    tree = with_patches(releases, "patched", DEFAULT, "0.5.23")
    given = {"attention_backend": "triton", "speculative_algorithm": "EAGLE", "speculative_num_steps": 3}
    given |= {"speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
    given |= {"speculative_draft_model_path": "y"}
    launches = [(given, {"PATCHKIT_DISABLE": patch}) for patch in ("", "26824", "26128")]
    assert tree.ask("servers.decisions", launches, [[]]) == [[(True, False)], [(True, False)], [(True, True)]]


@pytest.mark.parametrize("kind", ["eagle", "standalone", "multi-layer"])
@pytest.mark.parametrize(
    ("version", "kept"), [("0.5.12.post1", True), ("0.5.13.post1", True), ("0.5.14", False)]
)
def test_no_step_of_a_draft_with_multimodal_positions_waits_for_its_lengths(
    releases: Releases, version: str, kept: bool, kind: str
) -> None:
    tree = with_patches(releases, "patched", DEFAULT, version)
    started = tree.ask("decisions.start", kind, SLOTS, FREE, mrope=True)
    assert started["map"] is kept
    reason = "kept for the multimodal rotary positions of the draft; "
    assert (reason in started["logged"][-1]) is kept
    assert tree.ask("decisions.start", kind, SLOTS, FREE)["map"] is False
    case = {"mode": "DRAFT_EXTEND_V2", "lens": [14, 23], "prefix": [10, 19], "extend": [4, 4], "mrope": True}

    def reads(*, mirror: bool) -> list[str]:
        given = {**case, "mirror": mirror, "sum": mirror, "on_device": not mirror}
        reads: list[str] = tree.ask("forward_batches.make", given)["reads"]
        return reads

    assert reads(mirror=kept) == []
    # What the mirror is kept for.
    assert reads(mirror=False) == (["cpu", "tolist", "tolist"] if kept else [])


def test_without_overlap_there_is_no_map_and_batches_keep_the_mirror(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    started = [
        tree.ask("decisions.start", "eagle", SLOTS, FREE, overlap=False) for tree in (unpatched, patched)
    ]
    assert started[0]["map"] is started[1]["map"] is None
    assert started[1]["batches"] is True


@pytest.mark.parametrize("verify_side", ["prefill", "decode"])
@pytest.mark.parametrize(
    ("prefill", "decode"), list(itertools.product(["reads", "opted out", "undeclared", "triton"], repeat=2))
)
def test_a_hybrid_backend_that_opted_out_combines_both_sides_and_verifies_as_the_one_that_does(
    opted_out: DrivenTree, prefill: str, decode: str, verify_side: str
) -> None:
    found = opted_out.ask("decisions.hybrid", prefill, decode, verify_side)
    assert found == {
        "needs": not {prefill, decode} <= {"opted out", "triton"},
        "context": {"prefill": 100, "decode": 200}[verify_side],
        "buffers": [f"{verify_side}'s mask", None],
    }


def test_trtllm_mha_opts_out_where_that_is_named(patched: DrivenTree, opted_out: DrivenTree) -> None:
    request = [(FREE, ["trtllm mha", "triton draft", "trtllm mha"])]
    assert patched.ask("decisions.decide", request) == [True]
    assert opted_out.ask("decisions.decide", request) == [False]
