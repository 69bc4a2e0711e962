"""FlashAttention without the mirror: metadata equals the tree's own, and who is not known keeps the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven import trees
from support.driven.graph_sessions import CONTEXT, sessions
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

PAGE_SIZES = (1, 16, 64)
MODES = ("draft decode", "verify", "extend v2")
EAGER_MODES = ("decode", "draft decode", "verify", "extend", "extend v2")
LENGTHS = ("cache_seqlens_int32", "cu_seqlens_q", "cu_seqlens_k", "max_seq_len_q")
EXAMPLES = examples(6)
BATCH = {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [4, 4, 4]}
SERVERS = [{"context": CONTEXT, "page_size": size, "draft_tokens": 4} for size in PAGE_SIZES]
ALIKE = ["plain", "latent", "top-k 4"]
UNLIKE = ["latent, top-k 4", "window", "two pools", "local", "cross", "version 4", "fork"]

Sessions = list[dict[str, Any]]


def several(*modes: str) -> st.SearchStrategy[Sessions]:
    """Return lists of sessions, so that one round trip serves all of a list."""
    return st.lists(sessions(modes, PAGE_SIZES, named=True, mla=st.booleans()), min_size=3)


def driven(tree: DrivenTree, drawn: Sessions, mirror: str = "true", disable: str = "") -> Sessions:
    """Return what each session's captures and replays left; a replay writes what its graph was captured with."""
    requests = [(session, mirror, disable) for session in drawn]
    results: Sessions = tree.ask_many("flash_attention.replays", requests)
    for session in results:
        assert all(replay["in_place"] for replay in session["replayed"])
    return results


def assert_filled(session: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Assert that a replay from device lengths planned what the tree's own does, and that the host read nothing."""
    page_size = session["server"]["page_size"]
    for batch, actual, expected in zip(session["batches"], ours["replayed"], theirs["replayed"], strict=True):
        assert actual["host_reads"] == 0
        assert actual["max_seq_len_k"] == session["server"]["context"]
        for name in LENGTHS:
            assert actual[name] == expected[name], name
        for row in range(batch["graph"]):
            own = -(-actual["cache_seqlens_int32"][1][row] // page_size)
            assert actual["page_table"][1][row][:own] == expected["page_table"][1][row][:own]


def assert_all_filled(drawn: Sessions, ours: Sessions, theirs: Sessions) -> None:
    for session, actual, expected in zip(drawn, ours, theirs, strict=True):
        assert_filled(session, actual, expected)


@EXAMPLES
@given(drawn=several(*MODES), mirror=st.sampled_from(["true", "none", "stale"]))
def test_a_replay_is_planned_as_the_unpatched_tree_does_whatever_the_mirror_holds(
    unpatched: DrivenTree, patched: DrivenTree, drawn: Sessions, mirror: str
) -> None:
    assert_all_filled(drawn, driven(patched, drawn, mirror), driven(unpatched, drawn))


@EXAMPLES
@given(drawn=several(*MODES), mirror=st.sampled_from(["true", "none", "stale"]))
def test_a_replay_is_planned_as_the_successor_does_where_only_that_is_patched(
    upstream: DrivenTree, hardened: DrivenTree, drawn: Sessions, mirror: str
) -> None:
    assert_all_filled(drawn, driven(hardened, drawn, mirror), driven(upstream, drawn))


@EXAMPLES
@given(drawn=several("decode", *MODES))
def test_a_backend_that_is_switched_off_plans_as_before(
    unpatched: DrivenTree, patched: DrivenTree, drawn: Sessions
) -> None:
    assert driven(patched, drawn, disable="31364") == driven(unpatched, drawn)


@EXAMPLES
@given(drawn=several("decode"))
def test_a_plain_decode_is_planned_as_before(
    unpatched: DrivenTree, patched: DrivenTree, drawn: Sessions
) -> None:
    assert driven(patched, drawn) == driven(unpatched, drawn)


def test_only_what_is_known_does_without_the_mirror(unpatched: DrivenTree, patched: DrivenTree) -> None:
    drafts = [f"draft of {steps} steps, top-k {topk}" for topk, steps in ((1, 3), (4, 3), (1, 1))]
    result = patched.ask("flash_attention.keeps_mirror", [*ALIKE, *UNLIKE])
    assert result == dict.fromkeys([*ALIKE, *drafts], False) | dict.fromkeys(UNLIKE, True)
    assert set(unpatched.ask("flash_attention.keeps_mirror", [*ALIKE, *UNLIKE]).values()) == {None}


def test_the_switch_has_everyone_keep_the_mirror(patched: DrivenTree) -> None:
    result = patched.ask("flash_attention.keeps_mirror", ALIKE, disable="31364")
    # Such a draft has no step that attends.
    assert {kind for kind, keeps in result.items() if not keeps} == {"draft of 1 steps, top-k 1"}


@pytest.mark.parametrize("mode", EAGER_MODES)
def test_an_eager_batch_with_the_mirror_is_planned_as_before(
    unpatched: DrivenTree, patched: DrivenTree, mode: str
) -> None:
    requests = [(server, mode, BATCH, 2) for server in SERVERS]
    expected = unpatched.ask_many("flash_attention.eager", requests)
    assert patched.ask_many("flash_attention.eager", requests) == expected


@pytest.mark.parametrize("mode", ["draft decode", "verify", "extend v2"])
def test_an_eager_batch_without_the_mirror_reads_nothing_and_has_a_table_as_wide_as_the_context(
    patched: DrivenTree, mode: str
) -> None:
    for server in SERVERS:
        expected, actual = patched.ask_many(
            "flash_attention.eager", [(server, mode, BATCH, 2, True), (server, mode, BATCH, 2, False)]
        )
        assert actual["host_reads"] == 0
        for name in LENGTHS:
            assert actual[name] == expected[name], name
        (kind, wide), (expected_kind, narrow) = actual["page_table"], expected["page_table"]
        assert kind == expected_kind
        assert [row[: len(narrow[0])] for row in wide] == narrow
        assert len(wide[0]) * server["page_size"] >= CONTEXT


def test_the_v2_draft_extend_has_a_graph_on_cuda(unpatched: DrivenTree, patched: DrivenTree) -> None:
    kinds = ["triton", *ALIKE, *UNLIKE]
    ask = "flash_attention.captures_draft_extend"
    assert unpatched.ask(ask, kinds, cuda=True, environment={}) == {kind: kind == "triton" for kind in kinds}
    assert patched.ask(ask, kinds, cuda=True, environment={}) == {
        kind: kind in {"triton", "plain", "latent"} for kind in kinds
    }
    assert not any(patched.ask(ask, kinds, cuda=False, environment={}).values())


def test_a_draft_over_a_part_of_the_vocabulary_has_no_further_graph(patched: DrivenTree) -> None:
    result = patched.ask(
        "flash_attention.captures_draft_extend",
        ["triton", "plain"],
        cuda=True,
        environment={},
        token_map="tokens.pt",
    )
    assert result == {"triton": True, "plain": False}


@pytest.mark.parametrize(
    ("version", "width"), [("0.5.11", None), ("0.5.12.post1", 24), ("0.5.14", 24), ("0.5.16", None)]
)
def test_an_eagle3_draft_of_more_layers_than_the_runner_has_room_for_has_no_further_graph(
    releases: Releases, version: str, width: int | None
) -> None:
    after = trees.with_patches(releases, "default", trees.DEFAULT, version)
    assert after.ask("flash_attention.width_of_states", [1, 2, 3, 4]) == width
    for layers in ([1, 2, 3], [1, 2, 3, 4]):
        result = after.ask(
            "flash_attention.captures_draft_extend",
            ["plain", "latent"],
            cuda=True,
            environment={},
            layers=layers,
        )
        fits = width is None or width == 8 * len(layers)
        assert result == {"plain": fits, "latent": fits}


@pytest.mark.parametrize("version", ["0.5.12.post1", "0.5.14"])
def test_a_draft_with_multimodal_positions_that_the_runner_does_not_copy_has_no_further_graph(
    releases: Releases, version: str
) -> None:
    kinds = ["triton", "mha", "plain"]
    before = trees.as_released(releases, version)
    after = trees.with_patches(releases, "patched", trees.DEFAULT, version)

    def captured(tree: DrivenTree, **more: bool) -> list[str]:
        asked = tree.ask("flash_attention.captures_draft_extend", kinds, cuda=True, environment={}, **more)
        return [kind for kind, does in asked.items() if does]

    assert captured(after) == kinds
    with_mrope = captured(after, mrope=True)
    if version == "0.5.14":
        # Upstream's own graph of TRTLLM MHA has the same fault there.
        assert (captured(before, mrope=True), with_mrope) == (["triton", "mha"], ["triton"])
    else:
        assert with_mrope == captured(before, mrope=True)


@pytest.mark.parametrize(
    ("environment", "captured"),
    [
        ({"SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": "true"}, []),
        ({"SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": "0"}, ["triton", "plain"]),
        ({"PATCHKIT_DISABLE": "pk-fa3-draft-extend-graph"}, ["triton"]),
    ],
)
def test_a_switch_keeps_the_graph_out(
    patched: DrivenTree, environment: dict[str, str], captured: list[str]
) -> None:
    result = patched.ask(
        "flash_attention.captures_draft_extend", ["triton", "plain"], cuda=True, environment=environment
    )
    assert [kind for kind, does in result.items() if does] == captured


def assert_steps_planned(drawn: Sessions, ours: list[Any], theirs: list[Any], fills: int) -> None:
    for session, replayed, expected in zip(drawn, ours, theirs, strict=True):
        for batch, actual, own in zip(session["batches"], replayed, expected, strict=True):
            assert actual["in_place"]
            assert (actual["host_reads"], actual["fills"]) == (0, fills)
            one = {"replayed": [{**step, "host_reads": 0} for step in actual["steps"]]}
            other = {"replayed": own["steps"]}
            for step in range(len(own["steps"])):
                assert_filled(
                    {**session, "batches": [batch]},
                    {"replayed": one["replayed"][step : step + 1]},
                    {"replayed": other["replayed"][step : step + 1]},
                )


@EXAMPLES
@given(
    drawn=several("draft decode"), count=st.integers(3, 6), mirror=st.sampled_from(["true", "none", "stale"])
)
def test_all_steps_of_a_draft_are_planned_by_one_launch(
    unpatched: DrivenTree, patched: DrivenTree, drawn: Sessions, count: int, mirror: str
) -> None:
    theirs = unpatched.ask_many("flash_attention.steps", [(session, count, "true") for session in drawn])
    ours = patched.ask_many("flash_attention.steps", [(session, count, mirror) for session in drawn])
    assert_steps_planned(drawn, ours, theirs, fills=1)


@EXAMPLES
@given(drawn=several("draft decode"))
def test_all_steps_are_planned_by_one_launch_in_the_successor_where_only_that_is_patched(
    upstream: DrivenTree, hardened: DrivenTree, drawn: Sessions
) -> None:
    requests = [(session, 4, "true") for session in drawn]
    theirs, ours = (tree.ask_many("flash_attention.steps", requests) for tree in (upstream, hardened))
    assert_steps_planned(drawn, ours, theirs, fills=1)


@EXAMPLES
@given(drawn=several("draft decode"))
def test_steps_with_the_mirror_are_planned_as_before(
    unpatched: DrivenTree, patched: DrivenTree, drawn: Sessions
) -> None:
    requests = [(session, 4, "true") for session in drawn]
    theirs = unpatched.ask_many("flash_attention.steps", requests)
    off = patched.ask_many("flash_attention.steps", [(*one, "31364") for one in requests])
    assert off == theirs


def test_a_draft_of_a_single_forward_shares_nothing(unpatched: DrivenTree, patched: DrivenTree) -> None:
    session = {
        "server": SERVERS[0],
        "graphs": [4],
        "batches": [{"graph": 4, "rows": [3, 9, 5], "lens": [40, 65, 17], "stride": 4}],
    }
    theirs, ours = (tree.ask("flash_attention.steps", session, 2, "true") for tree in (unpatched, patched))
    assert_steps_planned([session], [ours], [theirs], fills=1)


def attended(
    tree: DrivenTree, *arguments: Any, **more: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    result = tree.ask("flash_attention.layers", *arguments, **more)
    assert all(call["same"] for call in result["calls"])
    return result["calls"], result["planned"]


def test_the_layers_of_a_verify_share_one_plan_made_from_what_the_kernel_is_given(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    before, planned = attended(unpatched, "plain", "verify", [3])
    assert [call["plan"] for call in before] == [None] * 3
    assert not planned
    calls, planned = attended(patched, "plain", "verify", [3])
    assert [call["plan"] for call in calls] == [1, 1, 1]
    assert planned == [calls[0]["asks"]]
    assert [call["asks"] for call in calls] == [call["asks"] for call in before]


def test_each_forward_plans_anew_on_the_metadata_of_the_one_before(patched: DrivenTree) -> None:
    # A capture runs a forward twice before it records one, all on the same metadata; a draft may have one layer.
    calls, planned = attended(patched, "plain", "verify", [3, 3, 1, 1, 2])
    assert [call["plan"] for call in calls] == [1, 1, 1, 2, 2, 2, 3, 4, 5, 5]
    assert len(planned) == 5


@pytest.mark.parametrize("mode", ["extend", "extend v2", "decode"])
def test_nothing_but_a_verify_gets_that_plan(patched: DrivenTree, mode: str) -> None:
    calls, planned = attended(patched, "plain", mode, [2])
    assert [call["plan"] for call in calls] == [None, None]
    assert not planned


@pytest.mark.parametrize(
    "more",
    [
        {"disable": "pk-fa3-verify-schedule"},
        {"dp": True},
        {"own_kernels": "0"},
        {"own_kernels": "false"},
        {"more": {"sliding_window_size": 16}},
    ],
    ids=str,
)
def test_a_verify_unknown_to_the_planner_is_planned_in_each_layer(
    patched: DrivenTree, more: dict[str, Any]
) -> None:
    calls, planned = attended(patched, "plain", "verify", [2], **more)
    assert [call["plan"] for call in calls] == [None, None]
    assert not planned


@pytest.mark.parametrize("kind", ["window", "version 4", "fork"])
def test_a_backend_that_is_not_known_gets_packed_queries_and_a_plan_in_each_layer(
    unpatched: DrivenTree, patched: DrivenTree, kind: str
) -> None:
    calls, planned = attended(patched, kind, "verify", [2])
    assert [(call["plan"], call["copied"]) for call in calls] == [(None, True)] * 2
    assert not planned
    assert calls == attended(unpatched, kind, "verify", [2])[0]


@pytest.mark.parametrize("mode", ["verify", "extend", "extend v2", "decode"])
def test_queries_are_read_where_the_projection_left_them(
    unpatched: DrivenTree, patched: DrivenTree, mode: str
) -> None:
    assert [call["copied"] for call in attended(unpatched, "plain", mode, [2])[0]] == [True, True]
    assert [call["copied"] for call in attended(patched, "plain", mode, [2])[0]] == [False, False]
    off, _ = attended(patched, "plain", mode, [2], disable="pk-attention-views")
    assert [call["copied"] for call in off] == [True, True]
