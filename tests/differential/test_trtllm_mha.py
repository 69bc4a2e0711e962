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

PAGE_SIZES = (1, 16, 32, 64)
MODES = ("decode", "draft decode", "verify", "extend v1")
EAGER_MODES = (*MODES, "extend", "extend v2")
LENGTHS = ("cache_seqlens_int32", "cu_seqlens_q", "cu_seqlens_k")
TABLES = ("page_table", "swa_page_table")
EXAMPLES = examples(8)
BATCH = {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [3, 1, 2]}
SERVER = {"context": CONTEXT, "page_size": 16, "draft_tokens": 4}
SERVERS = [SERVER | {"page_size": size, "swa": swa} for size in PAGE_SIZES for swa in (False, True)]

Sessions = list[dict[str, Any]]


def several(*modes: str, named: bool | None = None) -> st.SearchStrategy[Sessions]:
    """Return lists of sessions, so that one round trip serves all of a list."""
    return st.lists(sessions(modes, PAGE_SIZES, named=named, swa=st.booleans()), min_size=3)


def driven(tree: DrivenTree, drawn: Sessions, route: str = "tree") -> Sessions:
    """Return what each session's captures and replays left; a replay writes what its graph was captured with."""
    results: Sessions = tree.ask_many("trtllm_mha.replays", [(session, route) for session in drawn])
    for session in results:
        assert all(replay["in_place"] for replay in session["replayed"])
    return results


def replays(results: Sessions) -> list[list[dict[str, Any]]]:
    return [[without_reads(replay) for replay in session["replayed"]] for session in results]


def without_reads(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "host_reads"}


@EXAMPLES
@given(drawn=several(*MODES))
def test_what_the_patch_does_not_concern_is_planned_as_before(
    unpatched: DrivenTree, patched: DrivenTree, drawn: Sessions
) -> None:
    assert driven(patched, drawn) == driven(unpatched, drawn)


@EXAMPLES
@given(drawn=several("extend v2", *MODES))
def test_every_replay_is_planned_as_upstream_plans_it(
    patched: DrivenTree, upstream: DrivenTree, drawn: Sessions
) -> None:
    assert replays(driven(patched, drawn)) == replays(driven(upstream, drawn))


@EXAMPLES
@given(drawn=several("extend v2"))
def test_a_v2_draft_extend_is_captured_with_the_lengths_of_upstreams_capture(
    patched: DrivenTree, upstream: DrivenTree, drawn: Sessions
) -> None:
    for actual, expected in zip(driven(patched, drawn), driven(upstream, drawn), strict=True):
        assert actual["captured"].keys() == expected["captured"].keys()
        for bs, fields in actual["captured"].items():
            for name in ("cache_seqlens_int32", "cu_seqlens_q", "max_seq_len_q", "max_seq_len_k"):
                assert fields[name] == expected["captured"][bs][name], (bs, name)


@EXAMPLES
@given(drawn=several("extend v2"))
def test_a_v2_draft_extend_is_captured_like_a_v1(
    unpatched: DrivenTree, patched: DrivenTree, drawn: Sessions
) -> None:
    as_v1 = [session | {"mode": "extend v1"} for session in drawn]
    expected = [result["captured"] for result in driven(unpatched, as_v1)]
    assert [result["captured"] for result in driven(patched, drawn)] == expected


@pytest.mark.parametrize("swa", [False, True])
def test_a_v2_draft_extend_looks_up_only_a_stride_that_nobody_names(
    unpatched: DrivenTree, patched: DrivenTree, swa: bool
) -> None:
    """A v1's reads are of the mirror, which is on the host already."""
    one = {"server": SERVER | {"swa": swa}, "graphs": [4], "step": 0}
    named, unset = (BATCH | {"graph": 4, "stride": stride} for stride in (4, -1))
    ((v1,),) = [
        result["replayed"] for result in driven(unpatched, [one | {"mode": "extend v1", "batches": [named]}])
    ]
    (result,) = driven(patched, [one | {"mode": "extend v2", "batches": [named, unset]}])
    assert [replay["host_reads"] - v1["host_reads"] for replay in result["replayed"]] == [0, 1]


@pytest.mark.parametrize("mode", EAGER_MODES)
def test_an_eager_batch_is_planned_alike_in_every_tree(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, mode: str
) -> None:
    requests = [(server, mode, BATCH, 2) for server in SERVERS]
    expected = unpatched.ask_many("trtllm_mha.eager", requests)
    assert patched.ask_many("trtllm_mha.eager", requests) == expected
    planned = upstream.ask_many("trtllm_mha.eager", requests)
    assert [without_reads(result) for result in planned] == [without_reads(result) for result in expected]


def test_the_plan_streams_hook_changes_nothing_where_it_is(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree
) -> None:
    with pytest.raises(ProbeError, match="NotImplementedError"):
        unpatched.ask("trtllm_mha.overlap_hook", SERVER, "verify", BATCH)
    for tree in (patched, upstream):
        answer = tree.ask("trtllm_mha.overlap_hook", SERVER, "verify", BATCH)
        assert answer == (None, True, [None, None], True)


@EXAMPLES
@given(drawn=several(*MODES, "extend v2", named=True))
def test_patchkits_fill_plans_a_replay_as_the_tree_does(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, drawn: Sessions
) -> None:
    for tree in (unpatched, patched, upstream):
        known = [session for session in drawn if tree is not unpatched or session["mode"] != "extend v2"]
        for session, ours, theirs in zip(
            known, driven(tree, known, "fill"), driven(tree, known), strict=True
        ):
            assert_filled(session, ours, theirs)


def assert_filled(session: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Assert that a replay without the mirror planned what one with it does, and read nothing."""
    server, largest = session["server"], max(session["graphs"])
    for bs, fields in ours["captured"].items():
        # A capture that fills too has the same bound, which no kernel is given.
        bound = {"max_seq_len_k": theirs["captured"][bs]["max_seq_len_k"]}
        assert fields | bound == theirs["captured"][bs], bs
    # Tables of all sizes are rows of the largest one's.
    held = {name: ours["captured"][largest][name] for name in TABLES}
    rows = {name: [list(row) for row in value[1]] for name, value in held.items() if value is not None}
    assert rows.keys() == (set(TABLES) if server["swa"] else {"page_table"})
    for batch, actual, expected in zip(session["batches"], ours["replayed"], theirs["replayed"], strict=True):
        assert actual["host_reads"] == 0
        # Neither maximum is looked up: the context and the capture's tokens per request bound them.
        assert actual["max_seq_len_k"] == server["context"]
        is_v1 = session["mode"] == "extend v1"
        assert actual["max_seq_len_q"] == (server["draft_tokens"] if is_v1 else expected["max_seq_len_q"])
        for name in LENGTHS:
            assert actual[name] == expected[name], name
        for name, table in rows.items():
            for row in range(batch["graph"]):
                own = -(-actual["cache_seqlens_int32"][1][row] // server["page_size"])
                table[row][:own] = expected[name][1][row][:own]
            assert actual[name] == (expected[name][0], table[: batch["graph"]]), name


@pytest.mark.parametrize("route", ["tree", "mirrorless", "stale"])
@EXAMPLES
@given(drawn=several(*MODES, "extend v2", named=True))
def test_a_server_that_opted_out_replays_the_same_with_the_mirror_without_it_and_with_a_stale_one(
    every_tree: tuple[DrivenTree, ...],
    opted_out: DrivenTree,
    hardened_opted_out: DrivenTree,
    route: str,
    drawn: Sessions,
) -> None:
    _, patched, upstream = every_tree
    for before, after in ((patched, opted_out), (upstream, hardened_opted_out)):
        for session, ours, theirs in zip(
            drawn, driven(after, drawn, route), driven(before, drawn), strict=True
        ):
            assert_filled(session, ours, theirs)


@pytest.mark.parametrize("lens", [[140], [33, 170, 64]])
def test_a_verify_without_the_mirror_plans_every_page_through_the_runners_own_view(
    upstream: DrivenTree, hardened: DrivenTree, hardened_opted_out: DrivenTree, lens: list[int]
) -> None:
    result = hardened_opted_out.ask("trtllm_mha.viewed", SERVER, lens)
    assert result["planned"] == result["pages"]
    assert result["lens"] == [length + SERVER["draft_tokens"] for length in lens]
    assert not result["mirror"]
    # What the successor's view hands on passes for a mirror, and cuts the pages at the length that it holds.
    stale = upstream.ask("trtllm_mha.viewed", SERVER, lens)
    assert stale["mirror"]
    assert stale["planned"] != stale["pages"]
    with pytest.raises(ProbeError, match="NoneType"):
        hardened.ask("trtllm_mha.viewed", SERVER, lens)


@pytest.mark.parametrize("mode", EAGER_MODES)
def test_an_opted_out_servers_eager_batch_with_the_mirror_is_as_before(
    patched: DrivenTree, opted_out: DrivenTree, mode: str
) -> None:
    requests = [(server, mode, BATCH, 2) for server in SERVERS]
    expected = patched.ask_many("trtllm_mha.eager", requests)
    assert opted_out.ask_many("trtllm_mha.eager", requests) == expected


@pytest.mark.parametrize(
    ("mode", "reads"), [("decode", 0), ("draft decode", 0), ("verify", 0), ("extend v2", 1)]
)
def test_an_opted_out_servers_eager_batch_without_the_mirror_has_a_table_as_wide_as_the_pools_rows(
    opted_out: DrivenTree, mode: str, reads: int
) -> None:
    more = {"draft decode": 3, "verify": SERVER["draft_tokens"]}.get(mode, 0)
    for server in SERVERS:
        expected, actual = opted_out.ask_many(
            "trtllm_mha.eager", [(server, mode, BATCH, 2, True), (server, mode, BATCH, 2, False)]
        )
        assert actual["host_reads"] == reads
        assert actual["max_seq_len_k"] == WIDTH + more
        for name in (*LENGTHS, "max_seq_len_q"):
            assert actual[name] == expected[name], name
        for name in TABLES:
            assert (actual[name] is None) == (expected[name] is None)
            if actual[name] is not None:
                (kind, wide), (expected_kind, narrow) = actual[name], expected[name]
                assert kind == expected_kind
                assert [row[: len(narrow[0])] for row in wide] == narrow
                assert len(wide[0]) == -(-WIDTH // server["page_size"])


def test_an_opted_out_server_logs_that_it_needs_no_mirror(patched: DrivenTree, opted_out: DrivenTree) -> None:
    assert patched.ask("trtllm_mha.flags") == (True, True)
    assert opted_out.ask("trtllm_mha.flags") == (False, False)
