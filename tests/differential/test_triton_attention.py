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

SERVER = {"context": CONTEXT, "page_size": 1, "draft_tokens": 4}
# Without a sliding window, and with one whose layers have a pool of their own or none.
SERVERS = [SERVER, SERVER | {"window": 24}, SERVER | {"window": 24, "swa": True}]
BATCHES = [
    {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [3, 1, 2]},
    {"rows": [1], "lens": [8], "accepted": [8]},
    {"rows": [7, 2, 4, 6], "lens": [180, 1, 4, 33], "accepted": [4, 1, 4, 4]},
]
WITHOUT_A_MIRROR = ("verify", "extend", "extend v2")
WITH_A_MIRROR = ("decode", *WITHOUT_A_MIRROR, "extend v1")


def requests(mode: str, *more: bool) -> list[tuple[Any, ...]]:
    return [(server, mode, batch, *more) for server in SERVERS for batch in BATCHES]


def results(answers: list[dict[str, Any]], *left_out: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in answer.items() if name not in left_out} for answer in answers]


@pytest.mark.parametrize("mode", WITH_A_MIRROR)
def test_an_eager_batch_with_the_mirror_is_planned_as_before(
    unpatched: DrivenTree, patched: DrivenTree, mode: str
) -> None:
    before = unpatched.ask_many("triton_attention.eager", requests(mode, True))
    assert patched.ask_many("triton_attention.eager", requests(mode, True)) == before


@pytest.mark.parametrize("mode", WITH_A_MIRROR)
def test_an_eager_batch_with_the_mirror_is_planned_as_upstream_plans_it(
    patched: DrivenTree, upstream: DrivenTree, mode: str
) -> None:
    ours, theirs = (
        tree.ask_many("triton_attention.eager", requests(mode, True)) for tree in (patched, upstream)
    )
    assert results(ours, "host_reads") == results(theirs, "host_reads")


@pytest.mark.parametrize("mode", WITHOUT_A_MIRROR)
def test_an_eager_batch_without_the_mirror_has_the_live_indices_of_one_with_it(
    patched: DrivenTree, upstream: DrivenTree, hardened: DrivenTree, mode: str
) -> None:
    with_mirror, ours = (
        patched.ask_many("triton_attention.eager", requests(mode, mirror)) for mirror in (True, False)
    )
    assert results(ours, "size", "host_reads") == results(with_mirror, "size", "host_reads")
    assert ours == hardened.ask_many("triton_attention.eager", requests(mode, False))
    theirs = upstream.ask_many("triton_attention.eager", requests(mode, False))
    assert results(ours, "size") == results(theirs, "size")
    # Upstream's are as many as the context has, which a request at its limit exceeds.
    for result, width in ((ours, WIDTH), (theirs, CONTEXT)):
        bounds = [len(batch["lens"]) * width for _ in SERVERS for batch in BATCHES]
        assert [each["size"] for each in result] == bounds


@pytest.mark.parametrize("mode", WITHOUT_A_MIRROR)
def test_requests_at_their_limit_have_all_their_indices_without_the_mirror(
    patched: DrivenTree, hardened: DrivenTree, mode: str
) -> None:
    batch = {"rows": [3, 9, 5], "lens": [WIDTH] * 3, "accepted": [1, 1, 1]}
    for tree in (patched, hardened):
        with_mirror, without = tree.ask_many(
            "triton_attention.eager", [(SERVER, mode, batch, mirror) for mirror in (True, False)]
        )
        assert without["kv_indices"] == with_mirror["kv_indices"]
        assert without["size"] >= without["kv_indptr"][1][-1]


@pytest.mark.parametrize("mode", WITHOUT_A_MIRROR)
def test_without_the_mirror_nothing_but_a_window_is_read_to_the_host(
    patched: DrivenTree, upstream: DrivenTree, mode: str
) -> None:
    ours, theirs = (
        tree.ask_many("triton_attention.eager", requests(mode, False, True)) for tree in (patched, upstream)
    )
    assert results(ours, "size") == results(theirs, "size")
    for (server, *_), result in zip(requests(mode), ours, strict=True):
        assert (result["host_reads"] == 0) == ("window" not in server)


def test_an_extend_without_any_list_looks_up_its_longest_request_once(patched: DrivenTree) -> None:
    for batch in BATCHES:
        listed, bare = patched.ask_many(
            "triton_attention.eager", [(SERVER, "extend v2", batch, False, known) for known in (True, False)]
        )
        assert (listed["host_reads"], bare["host_reads"]) == (0, 1)
        assert bare["max_extend_len"] == listed["max_extend_len"] == max(batch["accepted"])


def test_a_verify_with_the_mirror_still_waits_for_the_size(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    for tree in (unpatched, patched):
        answers = tree.ask_many(
            "triton_attention.eager", [(SERVER, "verify", batch, True) for batch in BATCHES]
        )
        assert [(answer["size"], answer["host_reads"]) for answer in answers] == [
            (sum(batch["lens"]), 1) for batch in BATCHES
        ]


@pytest.mark.parametrize("mode", ["extend", "extend v2"])
def test_an_extend_needed_its_lists(unpatched: DrivenTree, mode: str) -> None:
    with pytest.raises(ProbeError, match="NoneType"):
        unpatched.ask("triton_attention.eager", SERVER, mode, BATCHES[0], False)


several = st.lists(
    sessions(
        ["decode", "verify", "extend v1", "extend v2"],
        [1],
        sizes=(1, 2, 4),
        most=2,
        window=st.sampled_from([None, 24]),
        swa=st.booleans(),
        steps=st.integers(1, 4),
    ),
    min_size=2,
    max_size=4,
)


@examples(3)
@given(drawn=several)
def test_graphs_are_replayed_as_before_with_the_mirror_and_without(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, drawn: list[dict[str, Any]]
) -> None:
    for session in drawn:
        # Only a window's layers have a pool of their own.
        session["server"]["swa"] &= session["server"]["window"] is not None
    before = unpatched.ask_many("triton_attention.replays", [(session, True) for session in drawn])
    for mirror in (True, False):
        assert (
            patched.ask_many("triton_attention.replays", [(session, mirror) for session in drawn]) == before
        )
    # Upstream's later v2 draft-extend attends to the prefix alone.
    known = [session for session in drawn if session["mode"] != "extend v2"]
    expected = [
        result for result, session in zip(before, drawn, strict=True) if session["mode"] != "extend v2"
    ]
    planned = upstream.ask_many("triton_attention.replays", [(session, False) for session in known])
    assert [results(result, "host_reads") for result in planned] == [
        results(result, "host_reads") for result in expected
    ]


DRAFTS = [
    (SERVER | {"topk": topk, "steps": steps, "page_size": page_size}, batch)
    for topk, steps, page_size in ((1, 2, 1), (1, 4, 16), (2, 3, 1), (3, 3, 16))
    for batch in BATCHES
]


def test_a_draft_with_the_mirror_is_planned_as_before(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    drafts = [(*draft, True) for draft in DRAFTS]
    before = unpatched.ask_many("triton_attention.draft", drafts)
    assert patched.ask_many("triton_attention.draft", drafts) == before
    assert upstream.ask_many("triton_attention.draft", drafts) == before


def test_a_draft_without_the_mirror_has_the_live_indices_of_one_with_it_and_upstreams_sizes(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    with_mirror, ours = (
        patched.ask_many("triton_attention.draft", [(*draft, mirror) for draft in DRAFTS])
        for mirror in (True, False)
    )
    assert [results(steps, "size") for steps in ours] == [results(steps, "size") for steps in with_mirror]
    assert {step["host_reads"] for steps in ours for step in steps} == {0}
    assert ours == upstream.ask_many("triton_attention.draft", [(*draft, False) for draft in DRAFTS])
    for (server, batch), steps in zip(DRAFTS, ours, strict=True):
        bound = len(batch["lens"]) * server["topk"] * CONTEXT
        assert [step["size"] for step in steps] == [bound] * (server["steps"] - 1)
    with pytest.raises(ProbeError, match="NoneType"):
        unpatched.ask("triton_attention.draft", *DRAFTS[0], False)


def test_a_drafts_graph_without_the_mirror_has_the_indices_of_one_with_it(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    before = unpatched.ask_many("triton_attention.draft_replay", [(*draft, True) for draft in DRAFTS])
    assert patched.ask_many("triton_attention.draft_replay", [(*draft, True) for draft in DRAFTS]) == before
    for tree in (patched, upstream):
        answers = tree.ask_many("triton_attention.draft_replay", [(*draft, False) for draft in DRAFTS])
        assert results(answers, "sizes") == results(before, "sizes")
        assert {answer["host_reads"] for answer in answers} == {0}


def test_target_and_draft_declare_that_they_read_no_mirror(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    answers = [tree.ask("triton_attention.flags") for tree in (unpatched, patched, upstream)]
    assert answers == [(None, None), (False, False), (False, False)]


@pytest.mark.parametrize("mode", WITHOUT_A_MIRROR)
def test_keys_and_values_are_read_where_the_projection_left_them(
    unpatched: DrivenTree, patched: DrivenTree, mode: str
) -> None:
    assert set(unpatched.ask("triton_attention.extended", "rows", mode).values()) == {True}
    assert set(patched.ask("triton_attention.extended", "rows", mode).values()) == {False}


@pytest.mark.parametrize(("kind", "disable"), [("heads", ""), ("fork", ""), ("rows", "pk-attention-views")])
def test_other_keys_and_values_are_packed_as_before(patched: DrivenTree, kind: str, disable: str) -> None:
    assert set(patched.ask("triton_attention.extended", kind, "verify", disable).values()) == {True}
