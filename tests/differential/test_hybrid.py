from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.graph_sessions import CONTEXT, WIDTH, sessions
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

SERVER = {"context": CONTEXT, "page_size": 32, "draft_tokens": 4}
KINDS = ("mha", "mla", "triton")
HYBRIDS = [f"{prefill}/{decode}" for prefill, decode in itertools.product(KINDS, repeat=2)]
WRAPPERS = [f"{wrapper} {kind}" for wrapper, kind in itertools.product(("linear", "two-batch"), KINDS)]


def test_every_wrapper_of_upstreams_keeps_the_mirror(unpatched: DrivenTree, upstream: DrivenTree) -> None:
    requests = [(kind, SERVER) for kind in [*HYBRIDS, *WRAPPERS, "flashinfer mla"]]
    assert set(unpatched.ask_many("hybrid.reads_mirror", requests)) == {None}
    assert set(upstream.ask_many("hybrid.reads_mirror", requests)) == {True}


def test_a_hybrid_keeps_the_mirror_for_a_side_that_has_not_opted_out(patched: DrivenTree) -> None:
    for kind in [*HYBRIDS, *WRAPPERS, "flashinfer mla"]:
        free = kind in HYBRIDS and "mha" not in kind
        assert patched.ask("hybrid.reads_mirror", kind, SERVER) is not free, kind


def test_an_opted_out_hybrid_keeps_the_mirror_only_for_a_side_that_reads_it(opted_out: DrivenTree) -> None:
    kinds = [*KINDS, *HYBRIDS]
    assert not any(opted_out.ask_many("hybrid.reads_mirror", [(kind, SERVER) for kind in kinds]))
    for kind in WRAPPERS:
        assert opted_out.ask("hybrid.reads_mirror", kind, SERVER), kind


def test_a_hybrid_with_one_side_that_reads_the_mirror_keeps_it(opted_out: DrivenTree) -> None:
    for kind in ("flashinfer mla/mha", "mha/flashinfer mla"):
        assert opted_out.ask("hybrid.reads_mirror", kind, SERVER), kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_with_a_plan_stream_starts_only_where_the_hook_is(
    unpatched: DrivenTree, patched: DrivenTree, kind: str
) -> None:
    hybrids = [f"{kind}/{kind}", f"flashinfer mla/{kind}"]
    wrapped = [f"linear {kind}", f"two-batch {kind}", "flashinfer mla", f"{kind}/flashinfer mla"]
    for tree in (unpatched, patched):
        has_hook = tree is patched or kind == "triton"
        assert (tree.ask("hybrid.starts", kind, SERVER, True) is None) == has_hook
        for each in hybrids:
            assert (tree.ask("hybrid.starts", each, SERVER, True) is None) == (tree is patched), each
        for each in wrapped:
            assert "overlap plan stream" in tree.ask("hybrid.starts", each, SERVER, True)
        assert set(
            tree.ask_many("hybrid.starts", [(each, SERVER, False) for each in (kind, *hybrids, *wrapped)])
        ) == {None}


def test_a_hybrid_delegates_to_the_backend_that_verifies(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, opted_out: DrivenTree
) -> None:
    size = 3 * SERVER["draft_tokens"] * (WIDTH + SERVER["draft_tokens"])
    requests = [(SERVER, attention_mode, 3) for attention_mode in ("prefill", "decode")]
    for tree in (patched, opted_out):
        masked, unmasked = tree.ask_many("hybrid.verify_side", requests)
        assert masked == {"mask": size, "own": True, "context": CONTEXT}
        assert unmasked == {"mask": None, "own": True, "context": CONTEXT}
    for tree in (unpatched, upstream):
        for result in tree.ask_many("hybrid.verify_side", requests):
            assert (result["mask"], result["context"]) == (None, None)


several = st.lists(sessions(["decode", "verify"], (16, 64), most=2), min_size=2, max_size=4)


@examples(3)
@given(drawn=several)
def test_an_opted_out_hybrid_passes_a_replay_on_with_the_mirror_and_without_it(
    patched: DrivenTree, opted_out: DrivenTree, drawn: list[dict[str, Any]]
) -> None:
    expected = patched.ask_many("hybrid.replays", [(session, True) for session in drawn])
    results = [
        opted_out.ask_many("hybrid.replays", [(session, mirror) for session in drawn])
        for mirror in (True, False)
    ]
    for ours, theirs in zip(itertools.chain(*results), [*expected, *expected], strict=True):
        assert ours["idle_side"]
        for actual, wanted in zip(ours["replayed"], theirs["replayed"], strict=True):
            assert (actual["host_reads"], actual["max_seq_len_k"]) == (0, CONTEXT)
            for name in ("cache_seqlens_int32", "cu_seqlens_q", "cu_seqlens_k", "max_seq_len_q"):
                assert actual[name] == wanted[name], name
