"""0.5.13 with upstream's patches taken out and this project's put in their place does what 0.5.13 does.

Tests of other modules run here as well: here `unpatched` is 0.5.13 without upstream's patches, and `patched` that with
this project's. Left out is what is about a copy and a wait of the host in the batch, which main's trees have not.
"""
# ruff: noqa: F401 - imported tests are collected.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from differential.test_batches import (
    test_a_merged_batch_has_a_mirror_where_both_sides_do,
    test_without_the_mirror_batches_end_as_in_the_successor,
)
from differential.test_decisions import (
    FREE,
    KINDS,
    SLOTS,
    test_a_server_without_a_setting_keeps_the_mirror,
    test_a_worker_names_the_backends_that_the_successors_does_and_the_one_of_an_eager_draft_extend,
    test_a_worker_that_names_no_draft_backends_has_an_unknown_one,
    test_each_pair_of_backends_is_decided_as_by_the_successor,
    test_each_setting_of_the_server_is_decided_as_by_the_successor,
)
from differential.test_draft_steps import (
    test_a_replay_without_the_mirror_is_planned_as_one_with_it_and_reads_nothing,
    test_each_step_of_a_replay_is_planned_as_the_common_template_did,
    test_each_step_of_an_eager_draft_is_planned_as_the_common_template_did,
    test_the_common_template_needed_the_sum,
)
from differential.test_flash_attention import BATCH as EAGER_BATCH
from differential.test_flash_attention import LENGTHS, MODES, SERVERS, Sessions, assert_all_filled, several
from differential.test_flash_attention import driven as replayed
from differential.test_forward_batches import (
    test_a_batch_with_its_lengths_on_the_device_is_the_successors_and_is_not_read,
    test_a_batch_with_its_lengths_on_the_host_is_alike_in_every_tree,
    test_a_draft_extend_with_the_mirror_is_alike_in_every_tree,
    test_a_draft_extend_without_the_mirror_is_the_successors_and_nothing_is_read_for_it,
    test_a_padded_batch_of_an_unknown_sum_is_the_successors,
    test_a_verify_with_the_mirror_is_given_the_same_in_every_tree,
    test_a_verify_without_the_mirror_is_the_successors_and_nothing_is_read_for_it,
    test_an_idle_draft_extend_plans_nothing,
    test_device_lengths_were_refused_before_and_anything_but_lists_and_tensors_still_is,
)
from differential.test_graphs import (
    EACH,
    TOKENS,
    Case,
    replay,
    test_a_captured_v2_draft_extend_computes_no_top_k_and_one_of_v1_does_as_before,
    test_a_replay_takes_no_top_k_from_a_v2_graph_that_has_none,
    test_a_replay_with_the_mirror_is_as_unpatched,
)
from differential.test_graphs import cases as graph_cases
from differential.test_lengths import (
    test_a_future_map_is_as_unpatched_but_has_the_flag_of_the_mirror,
    test_after_a_decode_step_lengths_mirror_and_sum_are_the_successors,
    test_the_flag_of_a_future_map_has_the_successors_name,
)
from differential.test_metrics import (
    test_the_reported_total_of_a_decode_batch_is_the_successors,
)
from differential.test_tree_mask import (
    test_a_mask_of_an_unknown_total_is_bounded_by_the_pools_rows,
    test_a_preallocated_mask_is_filled_in_place_as_far_as_the_total_or_its_bound,
    test_before_the_patch_trtllm_mla_had_no_preallocated_mask,
)
from differential.test_triton_attention import (
    test_a_draft_with_the_mirror_is_planned_as_before,
    test_a_draft_without_the_mirror_has_the_live_indices_of_one_with_it_and_upstreams_sizes,
    test_an_eager_batch_with_the_mirror_is_planned_as_before,
    test_an_eager_batch_without_the_mirror_has_the_live_indices_of_one_with_it,
    test_an_extend_without_any_list_looks_up_its_longest_request_once,
    test_target_and_draft_declare_that_they_read_no_mirror,
    test_without_the_mirror_nothing_but_a_window_is_read_to_the_host,
)
from differential.test_trtllm_mha import (
    test_a_v2_draft_extend_is_captured_like_a_v1,
    test_a_v2_draft_extend_is_captured_with_the_lengths_of_upstreams_capture,
    test_a_v2_draft_extend_looks_up_only_a_stride_that_nobody_names,
    test_every_replay_is_planned_as_upstream_plans_it,
    test_the_plan_streams_hook_changes_nothing_where_it_is,
    test_what_the_patch_does_not_concern_is_planned_as_before,
)
from differential.test_trtllm_mla import (
    test_graphs_are_planned_as_before_with_the_mirror_and_without,
    test_target_and_draft_declare_that_they_read_no_mirror_but_their_parent_does,
    test_the_tree_mask_is_upstreams_but_as_wide_as_the_pools_rows,
)
from differential.test_workers import (
    test_a_worker_with_a_plan_stream_refuses_to_start_with_a_backend_that_has_no_overlap_hook,
    test_an_unknown_sum_is_bounded_and_nothing_is_read,
    test_draft_extend_graphs_are_captured_for_trtllm_mha_too_and_for_all_as_before,
)
from hypothesis import given
from hypothesis import strategies as st
from support.backdated import LAST_FIRST, RELEASE, backdate, lay_out
from support.driven.trees import DEFAULT, DrivenTree
from support.releases import REFERENCE, run
from support.sweeps import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.releases import Releases

    from patchkit.tree.tree import OverlayTree


def driven(
    tree: OverlayTree, patches: tuple[str, ...], releases: Releases, factory: pytest.TempPathFactory
) -> Iterator[DrivenTree]:
    """Lay a tree out, apply ``patches``, if any, through the command, and drive what comes of it."""
    folder = factory.mktemp("driven")

    def make() -> Path:
        root = lay_out(tree, releases, folder).root
        if patches:
            run("apply", root, *patches)
        return root

    made = DrivenTree("backdated", make)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def unpatched(
    backdated: OverlayTree, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DrivenTree]:
    """The release without upstream's patches."""
    yield from driven(backdated, (), releases, tmp_path_factory)


@pytest.fixture(scope="module")
def patched(
    backdated: OverlayTree, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DrivenTree]:
    """The release with this project's patches in the place of upstream's."""
    yield from driven(backdated, DEFAULT, releases, tmp_path_factory)


@pytest.fixture(scope="module")
def gathering_on_host(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenTree]:
    """The same with the future map that main had first, which leaves the device's lengths to the forward."""
    tree = backdate(releases.tree(RELEASE), (*LAST_FIRST, "gather-on-host"))
    yield from driven(tree, ("26128",), releases, tmp_path_factory)


@pytest.fixture(scope="module")
def refreshing(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenTree]:
    """The release before with the batch that main had before the future map took lengths over."""
    tree = backdate(releases.tree(REFERENCE), ("refreshed-batch",))
    yield from driven(tree, ("26128",), releases, tmp_path_factory)


@pytest.fixture(scope="module")
def adding_written(
    releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[DrivenTree, ...]]:
    """The release before with FlashAttention's draft-extend of one day, as it was and patched."""
    tree = backdate(releases.tree(REFERENCE), ("written-added",))
    before, after = (driven(tree, patches, releases, tmp_path_factory) for patches in ((), ("31364",)))
    yield from zip(before, after, strict=True)


@pytest.fixture(scope="module")
def corrected(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenTree]:
    """The release without 26738 alone, as main was for six hours, and this project's in its place."""
    yield from driven(backdate(releases.tree(RELEASE), ("26738",)), ("26128",), releases, tmp_path_factory)


@pytest.fixture(scope="module")
def every_tree(unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree) -> tuple[DrivenTree, ...]:
    """All three; the patched one is in the middle."""
    return unpatched, patched, upstream


# ---- the future map's lengths ----------------------------------------------------------------------------------

DEVICES = ("cuda", "hip", "cpu")
FEW = examples(5)


ROW, LENGTH = st.integers(0, 23), st.integers(1, 5000)
BATCH = st.lists(ROW, unique=True, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.dictionaries(ROW, LENGTH, max_size=6)),
        st.tuples(st.just("resolve"), BATCH),
        st.tuples(st.just("prefill"), BATCH.filter(bool)),
        st.tuples(st.just("idle"), st.just([])),
    ),
    min_size=1,
    max_size=8,
)
"""What a schedule does with a future map: batches of requests with and without published lengths, idle ones too."""


def schedules(needed: st.SearchStrategy[bool]) -> st.SearchStrategy[list[tuple[bool, str, list[Any]]]]:
    """Return several schedules at a time, so that one round trip serves all."""
    return st.lists(st.tuples(needed, st.sampled_from(DEVICES), STEPS), min_size=6, max_size=12)


@FEW
@given(drawn=schedules(st.booleans()))
def test_batches_take_from_the_future_map_what_upstreams_take(
    patched: DrivenTree, upstream: DrivenTree, drawn: list[Any]
) -> None:
    assert patched.ask_many("backdated.resolves", drawn) == upstream.ask_many("backdated.resolves", drawn)


@FEW
@given(drawn=schedules(st.just(True)))
def test_with_the_mirror_the_future_map_does_what_it_did(
    unpatched: DrivenTree, patched: DrivenTree, drawn: list[Any]
) -> None:
    assert patched.ask_many("backdated.resolves", drawn) == unpatched.ask_many("backdated.resolves", drawn)


@pytest.mark.parametrize("device", DEVICES)
def test_without_the_mirror_lengths_advance_and_the_host_reads_none(patched: DrivenTree, device: str) -> None:
    steps = [("publish", {3: 50, 5: 61}), ("resolve", [5, 3]), ("idle", [])]
    published, resolved, idle = patched.ask("backdated.resolves", False, device, steps)
    waits = ["published.synchronize" if device == "hip" else "published.wait"]
    assert published == {"waits": ["published.record"], "reads": []}
    assert resolved == {"lens": [61, 50], "mirror": None, "sum": None, "waits": waits, "reads": []}
    assert idle == {"lens": [], "mirror": None, "sum": None, "waits": waits, "reads": []}


@pytest.mark.parametrize("device", DEVICES)
def test_with_the_mirror_it_has_the_advanced_lengths(patched: DrivenTree, device: str) -> None:
    steps = [("publish", {3: 50, 5: 61}), ("resolve", [5, 3])]
    _, resolved = patched.ask("backdated.resolves", True, device, steps)
    assert (resolved["lens"], resolved["mirror"], resolved["sum"]) == ([61, 50], [61, 50], 111)


@pytest.mark.parametrize("published", [True, False])
def test_a_map_that_gathers_on_the_host_copies_nothing_there_without_the_mirror(
    gathering_on_host: DrivenTree, published: bool
) -> None:
    steps = [("publish", {3: 50, 5: 61}), ("resolve", [5, 3])][not published :]
    lens = [61, 50] if published else [1005, 1003]
    waits = ["published.wait"] * published
    for needed in (True, False):
        *_, resolved = gathering_on_host.ask("backdated.resolves", needed, "cpu", steps)
        known = {"mirror": lens, "sum": sum(lens), "reads": ["cpu"]}
        unknown: dict[str, Any] = {"mirror": None, "sum": None, "reads": []}
        assert resolved == {"lens": [7, 7], "waits": waits} | (known if needed else unknown)


@pytest.mark.parametrize(
    ("needed", "how", "known"),
    [
        pytest.param(True, {"mode": "DECODE", "sync": True, "mirror": True}, [61, 50], id="it is needed"),
        pytest.param(False, {"mode": "DECODE", "sync": True, "mirror": True}, None, id="nobody reads it"),
        pytest.param(False, {"mode": "EXTEND", "sync": True, "mirror": True}, [61, 50], id="it is a prefill"),
        pytest.param(False, {"mode": "DECODE", "sync": False, "mirror": True}, [7, 7], id="it is fresh"),
        pytest.param(False, {"mode": "DECODE", "sync": False, "mirror": False}, None, id="there is none"),
    ],
)
def test_a_batch_that_refreshes_the_mirror_does_so_where_it_is_read(
    refreshing: DrivenTree, needed: bool, how: dict[str, Any], known: list[int] | None
) -> None:
    answer = refreshing.ask("backdated.refreshes", needed, [61, 50], **how)
    assert answer == {"mirror": known, "sum": None if known is None else sum(known)}


# ---- the decision on its way to the map --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["eagle", "standalone", "multi-layer"])
def test_the_future_map_gets_the_same_flag_as_upstreams(
    patched: DrivenTree, upstream: DrivenTree, kind: str
) -> None:
    kinds = [SLOTS, *([*SLOTS[:at], "reads", *SLOTS[at + 1 :]] for at in range(len(SLOTS)))]
    requests = [(kind, slots, FREE) for slots in kinds]
    results, expected = (tree.ask_many("decisions.start", requests) for tree in (patched, upstream))
    assert [result["map"] for result in results] == [result["map"] for result in expected]
    assert {result["map"] for result in results} == {True, False}


def test_a_decision_that_reads_every_slot_is_changed_to_upstreams(
    corrected: DrivenTree, upstream: DrivenTree
) -> None:
    requests = [(FREE, [kind, other]) for kind in KINDS for other in (None, "triton")]
    assert corrected.ask("decisions.decide", requests) == upstream.ask("decisions.decide", requests)


@pytest.mark.parametrize("kind", ["silent", "unrelated"])
def test_the_map_of_a_worker_without_the_flag_keeps_the_mirror(
    patched: DrivenTree, upstream: DrivenTree, kind: str
) -> None:
    # Upstream takes the target's word for such a worker.
    assert upstream.ask("decisions.start", kind, SLOTS, FREE)["map"] is False
    assert patched.ask("decisions.start", kind, SLOTS, FREE)["map"] is True


@pytest.mark.parametrize("kind", ["eagle", "multi-layer"])
def test_the_map_of_a_server_that_overlaps_the_plan_stream_keeps_the_mirror(
    patched: DrivenTree, kind: str
) -> None:
    assert patched.ask("decisions.start", kind, SLOTS, FREE, plan_stream=True)["map"] is True


# ---- graphs ------------------------------------------------------------------------------------------------------


@EACH
@examples(5)
@given(graph_cases(mirror=None, total=None), TOKENS)
def test_a_hardened_replay_passes_what_upstreams_does(
    patched: DrivenTree, hardened: DrivenTree, runner: str, case: Case, tokens: int
) -> None:
    answer, expected = (replay(tree, runner, case, tokens) for tree in (patched, hardened))
    assert answer == expected
    assert (answer["seq_lens_cpu"] is None) is not case["mirror"]


def test_a_multi_layer_replay_passes_no_sum_that_the_batch_lacks(patched: DrivenTree) -> None:
    case = {"lens": [3], "mirror": True, "sum": False, "topk": True}
    assert replay(patched, "multi-layer", case, 2)["seq_lens_sum"] is None


# ---- a draft-extend that adds what it writes to its lengths --------------------------------------------------------


@FEW
@given(drawn=several(*MODES), mirror=st.sampled_from(["true", "none", "stale"]))
def test_a_draft_extend_that_adds_what_it_writes_is_replayed_as_before(
    adding_written: tuple[DrivenTree, DrivenTree], drawn: Sessions, mirror: str
) -> None:
    before, after = adding_written
    assert_all_filled(drawn, replayed(after, drawn, mirror), replayed(before, drawn))


@pytest.mark.parametrize("mode", ["draft decode", "verify", "extend", "extend v2"])
def test_an_eager_draft_extend_that_adds_what_it_writes_is_planned_as_before(
    adding_written: tuple[DrivenTree, DrivenTree], mode: str
) -> None:
    before, after = adding_written
    requests = [(server, mode, EAGER_BATCH, 2) for server in SERVERS]
    assert after.ask_many("flash_attention.eager", requests) == before.ask_many(
        "flash_attention.eager", requests
    )


def test_an_eager_draft_extend_that_adds_what_it_writes_does_without_the_mirror(
    adding_written: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = adding_written
    for server in SERVERS:
        expected = before.ask("flash_attention.eager", server, "extend v2", EAGER_BATCH, 2)
        result = after.ask("flash_attention.eager", server, "extend v2", EAGER_BATCH, 2, mirror=False)
        assert {name: result[name] for name in LENGTHS} == {name: expected[name] for name in LENGTHS}
        assert result["host_reads"] == 0
        narrow, wide = expected["page_table"][1], result["page_table"][1]
        assert [row[: len(narrow[0])] for row in wide] == narrow
