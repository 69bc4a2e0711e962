from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.graph_sessions import CONTEXT, WIDTH, sessions
from support.driven.trees import ProbeError
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

PAGE_SIZES = (16, 32, 64)
MODES = ("decode", "verify", "extend v1", "extend v2")
EXAMPLES = examples(4)
BATCH = {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [4, 4, 4]}
SERVER = {"context": CONTEXT, "page_size": 32, "draft_tokens": 4}

Sessions = list[dict[str, Any]]


def driven(tree: DrivenTree, drawn: Sessions, mirror: bool = True) -> Sessions:
    """Return what each session's captures and replays left; a replay writes what its graph was captured with."""
    results: Sessions = tree.ask_many("trtllm_mla.replays", [(session, mirror) for session in drawn])
    for session in results:
        for replay in session["replayed"]:
            assert replay.pop("in_place")
            assert replay.pop("host_reads") == 0
    return results


def replays(results: Sessions) -> list[list[dict[str, Any]]]:
    return [session["replayed"] for session in results]


several = st.lists(sessions(MODES, PAGE_SIZES, most=3), min_size=2, max_size=4)


@EXAMPLES
@given(drawn=several)
def test_graphs_are_planned_as_before_with_the_mirror_and_without(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, drawn: Sessions
) -> None:
    ours = driven(patched, drawn)
    assert ours == driven(unpatched, drawn)
    assert ours == driven(patched, drawn, mirror=False)
    assert replays(ours) == replays(driven(upstream, drawn, mirror=False))


@pytest.mark.parametrize("mode", [*MODES, "extend"])
def test_an_eager_batch_is_planned_alike_in_every_tree(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, mode: str
) -> None:
    requests = [(SERVER | {"page_size": size}, mode, BATCH, True) for size in PAGE_SIZES]
    expected = unpatched.ask_many("trtllm_mla.eager", requests)
    assert patched.ask_many("trtllm_mla.eager", requests) == expected
    assert upstream.ask_many("trtllm_mla.eager", requests) == expected


@pytest.mark.parametrize("mode", MODES)
def test_an_eager_batch_without_the_mirror_is_planned_as_one_with_it(patched: DrivenTree, mode: str) -> None:
    servers = [SERVER | {"page_size": size} for size in PAGE_SIZES]
    with_mirror, without = (
        patched.ask_many("trtllm_mla.eager", [(server, mode, BATCH, mirror) for server in servers])
        for mirror in (True, False)
    )
    assert without == with_mirror


@pytest.mark.parametrize("skip_prefill", [False, True])
@pytest.mark.parametrize("draft_tokens", [None, 0, 1, 4, 7])
def test_the_tree_mask_is_upstreams_but_as_wide_as_the_pools_rows(
    unpatched: DrivenTree,
    patched: DrivenTree,
    upstream: DrivenTree,
    draft_tokens: int | None,
    skip_prefill: bool,
) -> None:
    server = SERVER | {"draft_tokens": draft_tokens}
    requests = [(server, skip_prefill, max_bs, draft_tokens or 1) for max_bs in (1, 3, 8)]
    answers = patched.ask_many("trtllm_mla.tree_mask", requests)
    theirs = upstream.ask_many("trtllm_mla.tree_mask", requests)
    none = ([None, None], [None, None])
    assert unpatched.ask_many("trtllm_mla.tree_mask", requests) == [none] * len(requests)
    if skip_prefill or not draft_tokens:
        assert answers == theirs == [none] * len(requests)
        return
    # Upstream's is as wide as the context, which a request at its limit exceeds.
    for result, width in ((answers, WIDTH), (theirs, CONTEXT)):
        sizes = [max_bs * draft_tokens * (width + draft_tokens) for max_bs in (1, 3, 8)]
        assert result == [([None, None], [("torch.bool", (size,), 0), None]) for size in sizes]


def test_a_full_tree_mask_that_nobody_reads_is_not_allocated(
    patched: DrivenTree, upstream: DrivenTree, hardened: DrivenTree
) -> None:
    request = (SERVER, False, 3, SERVER["draft_tokens"])
    for tree in (patched, hardened):
        assert tree.ask("trtllm_mla.tree_mask", *request, disable="") == ([None, None], [None, None])
    _, (mask, _) = upstream.ask("trtllm_mla.tree_mask", *request)
    assert mask is not None


def test_a_draft_extends_backend_has_no_tree_mask(patched: DrivenTree, upstream: DrivenTree) -> None:
    request = (SERVER, False, 3, SERVER["draft_tokens"], True)
    assert patched.ask("trtllm_mla.tree_mask", *request) == ([None, None], [None, None])
    _, (mask, _) = upstream.ask("trtllm_mla.tree_mask", *request)
    assert mask is not None


def test_target_and_draft_declare_that_they_read_no_mirror_but_their_parent_does(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    target, draft, parent = ("TRTLLMMLABackend", "TRTLLMMLAMultiStepDraftBackend", "FlashInferMLAAttnBackend")
    assert unpatched.ask("trtllm_mla.flags") == {target: None, draft: None, parent: None}
    for tree in (patched, upstream):
        assert tree.ask("trtllm_mla.flags") == {target: False, draft: False, parent: True}


def test_the_plan_streams_hook_changes_nothing_where_it_is(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    with pytest.raises(ProbeError, match="NotImplementedError"):
        unpatched.ask("trtllm_mla.overlap_hook", SERVER, BATCH)
    assert patched.ask("trtllm_mla.overlap_hook", SERVER, BATCH) == (None, True)
