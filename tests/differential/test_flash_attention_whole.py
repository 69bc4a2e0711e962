"""FlashAttention of every kind without the mirror: metadata equals the tree's own, in graphs and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.graph_sessions import CONTEXT, REQUESTS, sessions
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

WHOLE, BRANCHES = "29343", "pk-fa3-branches"
PAGE_SIZES = (1, 16, 64)
MODES = ("draft decode", "verify", "extend v2")
LENGTHS = ("cache_seqlens_int32", "cu_seqlens_q", "cu_seqlens_k", "max_seq_len_q")
EXAMPLES = examples(6)
FREED: dict[str, dict[str, Any]] = {
    "latent": {"mla": True},
    "window": {"window": 16},
    "two pools": {"swa": True, "window": 16},
    "local": {"local": True},
    "local, two pools": {"local": True, "swa": True, "window": 63},
    "version 4": {"version": 4},
    "version 4, two pools": {"version": 4, "swa": True, "window": 16},
}
KINDS = ["plain", "latent", "window", "two pools", "local", "version 4", "top-k 4", "latent, top-k 4"]
KEEPING = [
    "cross",
    "fork",
    "latent, version 4",
    "window, top-k 4",
    "two pools, top-k 4",
    "local, top-k 4",
    "version 4, top-k 4",
]
# As many tokens of chunked attention as the probe's models have.
CHUNK = 64

Sessions = list[dict[str, Any]]


@pytest.fixture(scope="module")
def whole(opted_out: DrivenTree) -> DrivenTree:
    return opted_out


@pytest.fixture(scope="module")
def later(hardened_opted_out: DrivenTree) -> DrivenTree:
    """The release whose graphs read from a buffer where a window's keys are written."""
    return hardened_opted_out


@st.composite
def several(draw: st.DrawFn, *modes: str) -> Sessions:
    """Draw sessions of every kind, so that one round trip serves all of them."""
    drawn = []
    for kind in FREED.values():
        session = draw(sessions(modes, PAGE_SIZES, named=True))
        drawn.append(session | {"server": session["server"] | kind})
    return drawn


def at_the_ends(mode: str) -> Sessions:
    """Return sessions of full and padded graphs whose requests end where the context does, and where a page does."""
    stride = 1 if mode == "draft decode" else 4
    batches: list[dict[str, Any]] = [
        {"graph": 4, "rows": [3, 9, 5, 7], "lens": [CONTEXT - stride] * 4},
        {"graph": 4, "rows": [2], "lens": [CONTEXT - stride]},
        {"graph": 2, "rows": [8, 1], "lens": [64 - stride, 65 - stride]},
        {"graph": 4, "rows": [8, 1, 4], "lens": [1, 128, 16]},
    ]
    return [
        {
            "server": {"context": CONTEXT, "requests": REQUESTS, "page_size": size, "draft_tokens": 4} | kind,
            "mode": mode,
            "graphs": [2, 4],
            "batches": [batch | {"accepted": [1] * len(batch["lens"]), "stride": 4} for batch in batches],
            "step": 0,
        }
        for size in PAGE_SIZES
        for kind in FREED.values()
    ]


def replayed(tree: DrivenTree, drawn: Sessions, mirror: str = "true", disable: str = "") -> list[Any]:
    """Return what each session's replays planned, each where its graph was captured."""
    results = tree.ask_many("flash_attention.replays", [(session, mirror, disable) for session in drawn])
    assert all(each["in_place"] for session in results for each in session["replayed"])
    return [session["replayed"] for session in results]


def own(table: Any, lens: list[int], page_size: int) -> list[list[int]]:
    """Return of each request's row the pages that it has."""
    return [row[: -(-length // page_size)] for row, length in zip(table[1], lens, strict=False)]


def assert_same(session: dict[str, Any], actual: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that what kernels read of two plans is the same."""
    for name in LENGTHS:
        assert actual[name] == expected[name], name
    lens = expected["cache_seqlens_int32"][1]
    for name in ("page_table", "swa_page_table"):
        if expected[name] is None:
            assert actual[name] is None
        else:
            of = lens, session["server"]["page_size"]
            assert actual[name][0] == expected[name][0]
            assert own(actual[name], *of) == own(expected[name], *of), name


def assert_all_same(drawn: Sessions, ours: list[Any], theirs: list[Any]) -> None:
    """Assert it of every replay, that the host read nothing for it, and that a batch's tokens go where they did."""
    for session, actual, expected in zip(drawn, ours, theirs, strict=True):
        for one, other in zip(actual, expected, strict=True):
            assert one["host_reads"] == 0
            assert one["max_seq_len_k"] == CONTEXT
            assert one["written"] == other["written"]
            assert_same(session, one, other)


@EXAMPLES
@given(drawn=several(*MODES), mirror=st.sampled_from(["true", "none", "stale"]))
def test_a_replay_is_planned_as_the_unpatched_tree_does_whatever_the_mirror_holds(
    unpatched: DrivenTree, whole: DrivenTree, drawn: Sessions, mirror: str
) -> None:
    assert_all_same(drawn, replayed(whole, drawn, mirror), replayed(unpatched, drawn))


@EXAMPLES
@given(drawn=several(*MODES), mirror=st.sampled_from(["true", "none", "stale"]))
def test_a_replay_is_planned_so_where_graphs_read_from_a_buffer_what_a_window_writes(
    upstream: DrivenTree, later: DrivenTree, drawn: Sessions, mirror: str
) -> None:
    ours = replayed(later, drawn, mirror)
    assert_all_same(drawn, ours, replayed(upstream, drawn))
    pools = [session["server"].get("swa", False) for session in drawn]
    assert [text[0]["written"] is not None for text in ours] == pools


@pytest.mark.parametrize("mode", MODES)
def test_requests_may_end_where_the_context_or_a_page_does(
    unpatched: DrivenTree, whole: DrivenTree, upstream: DrivenTree, later: DrivenTree, mode: str
) -> None:
    drawn = at_the_ends(mode)
    for theirs, ours in ((unpatched, whole), (upstream, later)):
        assert_all_same(drawn, replayed(ours, drawn, "none"), replayed(theirs, drawn))


@EXAMPLES
@given(drawn=several("decode"))
def test_a_plain_decode_is_planned_as_before(
    unpatched: DrivenTree, whole: DrivenTree, drawn: Sessions
) -> None:
    # What local attention plans for it is sized while a graph is captured.
    others = [session for session in drawn if not session["server"].get("local")]
    assert replayed(whole, others) == replayed(unpatched, others)


@EXAMPLES
@given(drawn=several(*MODES))
def test_switched_off_every_kind_is_planned_as_before(
    unpatched: DrivenTree, whole: DrivenTree, drawn: Sessions
) -> None:
    assert replayed(whole, drawn, disable=f"{WHOLE},31364") == replayed(unpatched, drawn)


@EXAMPLES
@given(drawn=several("draft decode"), count=st.integers(3, 6), mirror=st.sampled_from(["true", "none"]))
def test_all_steps_of_a_draft_are_planned_by_one_launch(
    unpatched: DrivenTree, whole: DrivenTree, drawn: Sessions, count: int, mirror: str
) -> None:
    theirs = unpatched.ask_many("flash_attention.steps", [(session, count, "true") for session in drawn])
    ours = whole.ask_many("flash_attention.steps", [(session, count, mirror) for session in drawn])
    for session, actual, expected in zip(drawn, ours, theirs, strict=True):
        for one, other in zip(actual, expected, strict=True):
            assert one["in_place"]
            assert (one["host_reads"], one["fills"]) == (0, 1)
            for step, its in zip(one["steps"], other["steps"], strict=True):
                assert_same(session, step, its)


def eager(tree: DrivenTree, kind: dict[str, Any], mode: str, *, mirror: bool) -> list[dict[str, Any]]:
    """Return what is planned without a graph, with each page size: a batch, and one request at the context's end."""
    end = CONTEXT - 4
    requests = [
        (
            {"context": CONTEXT, "page_size": size, "draft_tokens": 4} | kind,
            mode,
            {"rows": [3, 9, 5][: len(lens)], "lens": lens, "accepted": [4] * len(lens)},
            2,
            mirror,
        )
        for size in PAGE_SIZES
        for lens in ([40, 65, 17], [end], [end, 1 if mode != "extend v2" else 4, 64])
    ]
    results: list[dict[str, Any]] = tree.ask_many("flash_attention.eager", requests)
    return [{**each, "server": one[0]} for each, one in zip(results, requests, strict=True)]


@pytest.mark.parametrize("mode", ["decode", "draft decode", "verify", "extend", "extend v2"])
@pytest.mark.parametrize("kind", FREED)
def test_an_eager_batch_with_the_mirror_is_planned_as_before(
    unpatched: DrivenTree, whole: DrivenTree, kind: str, mode: str
) -> None:
    theirs, ours = (eager(tree, FREED[kind], mode, mirror=True) for tree in (unpatched, whole))
    assert ours == theirs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", FREED)
def test_an_eager_batch_without_the_mirror_attends_to_the_same(
    whole: DrivenTree, later: DrivenTree, kind: str, mode: str
) -> None:
    for tree in (whole, later):
        theirs, ours = (eager(tree, FREED[kind], mode, mirror=mirror) for mirror in (True, False))
        for actual, expected in zip(ours, theirs, strict=True):
            assert_same(actual, actual, expected)
            assert_same_chunks(actual, expected)
            # Chunks are made on the host, from lengths that are copied there with and without the mirror.
            chunked = actual["local"] is not None
            assert actual["host_reads"] <= (expected["host_reads"] if chunked else 0)


def assert_same_chunks(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that chunked attention attends to the same."""
    chunks, theirs = actual["local"], expected["local"]
    assert (chunks is None) is (theirs is None)
    if theirs is None:
        return
    for name in ("local_query_start_loc", "local_seqused_k", "local_max_query_len"):
        assert chunks[name] == theirs[name], name
    lens, size = theirs["local_seqused_k"][1], actual["server"]["page_size"]
    assert max(lens) <= CHUNK
    table, its = chunks["local_block_table"], theirs["local_block_table"]
    assert own(table, lens, size) == own(its, lens, size)


def test_each_kind_but_those_that_the_host_sizes_goes_without_the_mirror(
    patched: DrivenTree, whole: DrivenTree, later: DrivenTree
) -> None:
    kinds, ask = [*KINDS, *KEEPING], "flash_attention.keeps_mirror"
    drafts = ["draft of 3 steps, top-k 1", "draft of 3 steps, top-k 4", "draft of 1 steps, top-k 1"]
    for tree in (whole, later):
        assert tree.ask(ask, kinds) == {kind: kind in KEEPING for kind in (*kinds, *drafts)}
    assert whole.ask(ask, kinds, disable=WHOLE) == patched.ask(ask, kinds)
    # Alone each frees what is its own.
    freed = {"plain", "latent", "top-k 4", *drafts}
    assert whole.ask(ask, kinds, disable=WHOLE) == {kind: kind not in freed for kind in (*kinds, *drafts)}
    freed = {*KINDS, *drafts} - {"top-k 4", "latent, top-k 4", drafts[1]}
    assert whole.ask(ask, kinds, disable=BRANCHES) == {kind: kind not in freed for kind in (*kinds, *drafts)}
    assert {kind for kind, keeps in whole.ask(ask, kinds, disable="31364").items() if not keeps} == {
        drafts[2]
    }


def test_a_draft_extend_has_a_graph_where_its_keys_lie_in_one_pool(
    patched: DrivenTree, whole: DrivenTree
) -> None:
    kinds, ask = [*KINDS, *KEEPING], "flash_attention.captures_draft_extend"
    graphs = whole.ask(ask, kinds, cuda=True, environment={})
    assert [kind for kind, has in graphs.items() if has] == ["plain", "latent", "window", "local"]
    off = {"PATCHKIT_DISABLE": WHOLE}
    assert whole.ask(ask, kinds, cuda=True, environment=off) == patched.ask(
        ask, kinds, cuda=True, environment={}
    )


# ---- several branches ------------------------------------------------------------------------------------------

TOPK = {"topk": 4, "steps": 5}


def with_branches(mode: str, page_sizes: tuple[int, ...]) -> st.SearchStrategy[Sessions]:
    """Return lists of sessions of a server with several branches, on latent attention or not."""
    drawn = sessions([mode], page_sizes, named=True, mla=st.booleans(), topk=st.just(4), steps=st.just(5))
    return st.lists(drawn, min_size=5)


def planned(
    tree: DrivenTree, drawn: Sessions, mirror: str, *, small: bool = False, disable: str = ""
) -> list[Any]:
    """Return what each session's replays planned, each where its graph was captured."""
    requests = [(session, mirror, small, disable) for session in drawn]
    results = tree.ask_many("flash_attention.branches", requests)
    assert all(each["in_place"] for session in results for each in session)
    return results


def assert_branches_same(drawn: Sessions, ours: list[Any], theirs: list[Any]) -> None:
    """Assert that what kernels read of plans for prefixes and branches is the same, and the host read nothing."""
    for session, actual, expected in zip(drawn, ours, theirs, strict=True):
        page_size = session["server"]["page_size"]
        for one, other in zip(actual, expected, strict=True):
            assert one["host_reads"] == 0
            lens = other["cache_seqlens_int32"]
            assert one["cache_seqlens_int32"] == lens
            assert own(one["page_table"], lens[1], page_size) == own(other["page_table"], lens[1], page_size)
            verifies = session["mode"] == "verify"
            # A draft's kernels are not given the prefixes' offsets, nor what lies behind a branch's end.
            for name in ("max_seq_len_q", "cu_seqlens_q", *(["cu_seqlens_k"] if verifies else [])):
                assert one[name] == other[name], name
            branches, its = one["own"], other["own"]
            for name in ("cache_seqlens_int32", "max_seq_len_q", "cu_seqlens_q", "cu_seqlens_k"):
                assert branches[name] == its[name], name
            reach = its["cache_seqlens_int32"][1], 1 if verifies else page_size
            assert branches["page_table"][0] == its["page_table"][0]
            assert own(branches["page_table"], *reach) == own(its["page_table"], *reach)


@EXAMPLES
@given(drawn=with_branches("draft decode", PAGE_SIZES), mirror=st.sampled_from(["true", "none"]))
def test_a_drafts_branches_are_planned_as_the_successor_does(
    upstream: DrivenTree, later: DrivenTree, drawn: Sessions, mirror: str
) -> None:
    assert_branches_same(drawn, planned(later, drawn, mirror), planned(upstream, drawn, "true"))


@EXAMPLES
@given(drawn=with_branches("draft decode", (1,)), mirror=st.sampled_from(["true", "none"]))
def test_a_drafts_branches_are_planned_as_the_unpatched_tree_does(
    unpatched: DrivenTree, whole: DrivenTree, drawn: Sessions, mirror: str
) -> None:
    assert_branches_same(drawn, planned(whole, drawn, mirror), planned(unpatched, drawn, "true"))


@EXAMPLES
@given(
    drawn=with_branches("verify", PAGE_SIZES),
    mirror=st.sampled_from(["true", "none"]),
    small=st.booleans(),
)
def test_a_tree_is_planned_as_before_from_either_mask(
    unpatched: DrivenTree,
    whole: DrivenTree,
    upstream: DrivenTree,
    later: DrivenTree,
    *,
    drawn: Sessions,
    mirror: str,
    small: bool,
) -> None:
    for theirs, ours in ((unpatched, whole), (upstream, later)):
        expected = planned(theirs, drawn, "true")
        assert_branches_same(drawn, planned(ours, drawn, mirror, small=small), expected)


@pytest.mark.parametrize("mode", ["draft decode", "verify"])
def test_branches_may_end_where_the_context_does_and_a_graph_may_be_full_or_padded(
    upstream: DrivenTree, later: DrivenTree, mode: str
) -> None:
    batches = [
        {"graph": 4, "rows": [3, 9, 5, 7], "lens": [CONTEXT - 5] * 4},
        {"graph": 4, "rows": [2], "lens": [CONTEXT - 5]},
        {"graph": 2, "rows": [8, 1], "lens": [64, 63]},
        {"graph": 4, "rows": [8, 1, 4], "lens": [1, 128, 16]},
    ]
    server = {"context": CONTEXT, "requests": REQUESTS, "draft_tokens": 5} | TOPK
    drawn = [
        {
            "server": server | {"page_size": size, "mla": mla},
            "mode": mode,
            "graphs": [2, 4],
            "batches": batches,
            "step": step,
        }
        for size in PAGE_SIZES
        for mla in (False, True)
        for step in (0, 3)
    ]
    expected = planned(upstream, drawn, "true")
    assert_branches_same(drawn, planned(later, drawn, "none"), expected)
    if mode == "verify":
        assert_branches_same(drawn, planned(later, drawn, "none", small=True), expected)


@pytest.mark.parametrize("size", PAGE_SIZES)
def test_the_steps_of_a_draft_of_branches_share_the_plan_of_their_prefixes(
    unpatched: DrivenTree, whole: DrivenTree, upstream: DrivenTree, later: DrivenTree, size: int
) -> None:
    batches = [
        {"graph": 4, "rows": [3, 9, 5], "lens": [40, 65, 17]},
        {"graph": 2, "rows": [8, 1], "lens": [64, 63]},
        {"graph": 4, "rows": [3, 9, 5, 7], "lens": [CONTEXT - 6] * 4},
    ]
    server = {"context": CONTEXT, "requests": REQUESTS, "draft_tokens": 5, "page_size": size} | TOPK
    session = {"server": server, "graphs": [2, 4], "batches": batches}
    trees = ((unpatched, whole), (upstream, later)) if size == 1 else ((upstream, later),)
    for before, after in trees:
        expected = before.ask("flash_attention.branch_steps", session, mirror=True)
        actual = after.ask("flash_attention.branch_steps", session, mirror=False)
        for one, other in zip(actual, expected, strict=True):
            assert (one["current"], one["in_place"], one["host_reads"]) == (True, True, 0)
            assert one["tables"] == (1 if size == 1 else len(one["steps"]))
            for (prefix, branches), (its, their) in zip(one["steps"], other["steps"], strict=True):
                lens = its["cache_seqlens_int32"]
                assert prefix["cache_seqlens_int32"] == lens
                assert own(prefix["page_table"], lens[1], size) == own(its["page_table"], lens[1], size)
                for name in ("cache_seqlens_int32", "max_seq_len_q", "cu_seqlens_q", "cu_seqlens_k"):
                    assert branches[name] == their[name], name
                reach = their["cache_seqlens_int32"][1], size
                assert own(branches["page_table"], *reach) == own(their["page_table"], *reach)


@pytest.mark.parametrize("mode", ["draft decode", "verify"])
def test_switched_off_branches_are_planned_as_before(
    upstream: DrivenTree, later: DrivenTree, mode: str
) -> None:
    batches = [{"graph": 4, "rows": [8, 1, 4], "lens": [1, 128, 16]}]
    server = {"context": CONTEXT, "requests": REQUESTS, "draft_tokens": 5, "page_size": 16} | TOPK
    drawn = [{"server": server, "mode": mode, "graphs": [4], "batches": batches, "step": 1}]
    assert planned(later, drawn, "true", disable=f"{WHOLE},{BRANCHES}") == planned(upstream, drawn, "true")


@pytest.mark.parametrize("mla", [False, True])
def test_a_tree_without_a_graph_is_planned_from_either_mask(
    unpatched: DrivenTree, whole: DrivenTree, upstream: DrivenTree, later: DrivenTree, mla: bool
) -> None:
    batch = {"rows": [3, 9, 5], "lens": [40, 65, CONTEXT - 5], "accepted": [4, 4, 4]}
    for size in PAGE_SIZES:
        server = {"context": CONTEXT, "page_size": size, "draft_tokens": 5, "mla": mla} | TOPK
        for before, after in ((unpatched, whole), (upstream, later)):
            expected = before.ask("flash_attention.eager_tree", server, batch, mirror=True, small=False)
            ask = "flash_attention.eager_tree"
            assert after.ask(ask, server, batch, mirror=True, small=False) == expected
            for small in (False, True):
                actual = after.ask(ask, server, batch, mirror=False, small=small)
                assert actual["host_reads"] == 0
                assert actual["own"] == expected["own"]
                lens = expected["cache_seqlens_int32"]
                assert actual["cache_seqlens_int32"] == lens
                assert own(actual["page_table"], lens[1], size) == own(expected["page_table"], lens[1], size)


def test_branches_have_a_mask_over_the_draft_tokens_where_nothing_else_of_it_is_read(
    patched: DrivenTree, whole: DrivenTree, later: DrivenTree
) -> None:
    server = {"context": CONTEXT, "page_size": 1, "draft_tokens": 4, "steps": 3}
    ask = "verify_mask.chosen"
    for tree in (patched, whole, later):
        assert tree.ask(ask, "flash top-k 4", server | {"topk": 4}) == "QLEN_ONLY"
        for kind in ("flash window, top-k 4", "flash version 4, top-k 4", "triton"):
            assert tree.ask(ask, kind, server | {"topk": 4}) == "FULL_MASK"
