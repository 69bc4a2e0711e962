"""0.5.13 with upstream's patches taken out and this project's put in their place does what 0.5.13 does.

Tests of other modules run here as well: here `unpatched` is 0.5.13 without upstream's patches, and `patched` that with
this project's. Left out is what is about a copy and a wait of the host in the batch, which main's trees have not.
"""
# ruff: noqa: F401 - imported tests are collected.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from backdated import lay_out
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import run
from test_differential_batches import (
    test_a_merged_batch_has_a_mirror_where_both_sides_do,
    test_with_the_mirror_batches_are_as_unpatched_in_all_they_do,
    test_without_the_mirror_batches_end_as_in_the_successor,
)
from test_differential_draft_steps import (
    test_a_replay_without_the_mirror_is_planned_as_one_with_it_and_reads_nothing,
    test_each_step_of_a_replay_is_planned_as_the_common_template_did,
    test_each_step_of_an_eager_draft_is_planned_as_the_common_template_did,
    test_the_common_template_needed_the_sum,
)
from test_differential_forward_batches import (
    test_a_batch_with_its_lengths_on_the_device_is_the_successors_and_is_not_read,
    test_a_batch_with_its_lengths_on_the_host_is_alike_in_every_tree,
    test_a_draft_extend_with_the_mirror_is_alike_in_every_tree,
    test_a_draft_extend_without_the_mirror_is_the_successors_and_nothing_is_read_for_it,
    test_a_padded_batch_is_alike_in_every_tree_where_its_sum_is_known,
    test_a_padded_batch_of_an_unknown_sum_is_the_successors,
    test_a_verify_with_the_mirror_is_given_the_same_in_every_tree,
    test_a_verify_without_the_mirror_is_the_successors_and_nothing_is_read_for_it,
    test_an_idle_draft_extend_plans_nothing,
    test_device_lengths_were_refused_before_and_anything_but_lists_and_tensors_still_is,
    test_multimodal_positions_without_the_mirror_are_those_with_it,
)
from test_differential_lengths import (
    test_a_future_map_is_as_unpatched_but_knows_whether_the_mirror_is_needed,
    test_a_future_map_is_told_by_the_name_that_the_successors_is,
    test_after_a_decode_step_lengths_mirror_and_sum_are_the_successors,
)
from test_differential_trtllm_mha import (
    test_a_v2_draft_extend_is_captured_like_a_v1,
    test_a_v2_draft_extend_is_captured_with_the_lengths_of_upstreams_capture,
    test_a_v2_draft_extend_looks_up_only_a_stride_that_nobody_names,
    test_every_replay_is_planned_as_upstream_plans_it,
    test_the_plan_streams_hook_changes_nothing_where_it_is,
    test_what_the_patch_does_not_concern_is_planned_as_before,
)
from test_differential_trtllm_mla import (
    test_graphs_are_planned_as_before_with_the_mirror_and_without,
    test_target_and_draft_say_that_they_read_no_mirror_but_their_parent_does,
    test_the_tree_mask_is_the_one_that_upstream_allocates,
)
from trees import DEFAULT, DrivenTree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from releases import Releases

    from patchkit.tree import OverlayTree


@pytest.fixture(scope="module")
def unpatched(
    backdated: OverlayTree, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DrivenTree]:
    """The release without upstream's patches."""
    folder = tmp_path_factory.mktemp("driven")
    tree = DrivenTree("backdated", lambda: lay_out(backdated, releases, folder).root)
    yield tree
    tree.stop()


@pytest.fixture(scope="module")
def patched(
    backdated: OverlayTree, releases: Releases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DrivenTree]:
    """The release with this project's patches in the place of upstream's."""
    folder = tmp_path_factory.mktemp("driven")

    def make() -> Path:
        tree = lay_out(backdated, releases, folder)
        run("apply", tree.root, *DEFAULT)
        return tree.root

    tree = DrivenTree("repatched", make)
    yield tree
    tree.stop()


@pytest.fixture(scope="module")
def every_tree(unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree) -> tuple[DrivenTree, ...]:
    """All three; the patched one is in the middle."""
    return unpatched, patched, upstream


# ---- the future map's lengths ----------------------------------------------------------------------------------

DEVICES = ("cuda", "hip", "cpu")
FEW = settings(max_examples=10)


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
def test_with_the_mirror_it_holds_the_advanced_lengths(patched: DrivenTree, device: str) -> None:
    steps = [("publish", {3: 50, 5: 61}), ("resolve", [5, 3])]
    _, resolved = patched.ask("backdated.resolves", True, device, steps)
    assert (resolved["lens"], resolved["mirror"], resolved["sum"]) == ([61, 50], [61, 50], 111)
