"""DeepSeek Sparse Attention plans without the mirror as with it, and a v2 draft-extend in a graph as without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.graph_sessions import CONTEXT, REQUESTS, WIDTH, sessions
from support.driven.trees import DEFAULT, OPTIONAL, DrivenTree, ProbeError, as_released, with_patches
from support.sweeps import examples

if TYPE_CHECKING:
    from support.releases import Releases

LATER = "0.5.14"
PAGE_SIZES = (1, 64)
TOKENS = 4
SERVER = {
    "context": CONTEXT,
    "requests": REQUESTS,
    "page_size": 64,
    "draft_tokens": TOKENS,
    "topk": 1,
    "steps": 3,
}
BATCH: dict[str, Any] = {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [TOKENS] * 3, "graph": 4}
LENGTHS = ("lens", "starts", "rows", "row_lens", "row_starts")
EXAMPLES = examples(5)

Plan = dict[str, Any]


@pytest.fixture(scope="module")
def later(releases: Releases) -> DrivenTree:
    """A release whose draft-extend has one form, as it is."""
    return as_released(releases, LATER)


@pytest.fixture(scope="module")
def later_opted_out(releases: Releases) -> DrivenTree:
    return with_patches(releases, "later opted out", (*DEFAULT, *OPTIONAL), LATER)


@pytest.fixture(scope="module", params=["0.5.12.post1", "0.5.13", LATER])
def trees(request: pytest.FixtureRequest) -> tuple[DrivenTree, DrivenTree]:
    """A tree as it is, and with every patch."""
    names = {
        "0.5.12.post1": ("unpatched", "opted_out"),
        "0.5.13": ("upstream", "hardened_opted_out"),
        LATER: ("later", "later_opted_out"),
    }
    before, after = (request.getfixturevalue(name) for name in names[request.param])
    return before, after


def several(mode: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return lists of sessions, so that one round trip serves all of a list."""
    return st.lists(sessions([mode], PAGE_SIZES, named=True, topk=st.just(1)), min_size=2, max_size=4)


def assert_same(ours: Plan, theirs: Plan, requests: int, page_size: int) -> None:
    """Assert that what each row of the first ``requests`` reads is planned alike, however wide the tables are."""
    stride = len(theirs["row_lens"]) // len(theirs["lens"])
    for name in LENGTHS:
        if theirs[name] is not None:
            width = requests * (1 if name in {"lens", "starts"} else stride) + name.endswith("starts")
            assert ours[name][:width] == theirs[name][:width], name
    for name, size in (("tokens", 1), ("pages", page_size)):
        for row in range(requests * stride):
            reach = -(-ours["lens"][row // stride] // size)
            assert ours[name][row][:reach] == theirs[name][row][:reach], (name, row)


@pytest.mark.parametrize("mode", ["decode", "verify"])
@pytest.mark.parametrize("mirror", ["none", "stale", "true"])
@EXAMPLES
@given(data=st.data())
def test_a_replay_plans_from_device_lengths_what_the_tree_plans_with_the_mirror(
    trees: tuple[DrivenTree, DrivenTree], mode: str, mirror: str, data: st.DataObject
) -> None:
    drawn = data.draw(several(mode))
    before, after = trees
    theirs = before.ask_many("sparse_attention.replays", [(session, "true") for session in drawn])
    ours = after.ask_many("sparse_attention.replays", [(session, mirror) for session in drawn])
    for session, expected, actual in zip(drawn, theirs, ours, strict=True):
        for batch, one, other in zip(session["batches"], actual, expected, strict=True):
            assert_same(one, other, batch["graph"], session["server"]["page_size"])
            assert one["in_place"]
            assert one["host_reads"] == 0


@pytest.mark.parametrize("mirror", ["none", "stale", "true"])
@EXAMPLES
@given(data=st.data())
def test_a_v2_draft_extend_replays_what_the_tree_plans_for_it_without_a_graph(
    trees: tuple[DrivenTree, DrivenTree], mirror: str, data: st.DataObject
) -> None:
    drawn = data.draw(several("extend v2"))
    before, after = trees
    ours = after.ask_many("sparse_attention.replays", [(session, mirror) for session in drawn])
    for session, actual in zip(drawn, ours, strict=True):
        server, stride = session["server"], session["server"]["draft_tokens"]
        for batch, one in zip(session["batches"], actual, strict=True):
            count = len(batch["lens"])
            # Whatever was accepted, the draft's cache is extended by every token.
            eager = batch | {"accepted": [stride] * count}
            theirs = before.ask("sparse_attention.eager", server, "extend v2", eager)
            assert_same(one, theirs, count, server["page_size"])
            assert one["in_place"]
            assert one["host_reads"] == 0
            padding = one["rows"][count * stride :]
            assert padding == one["row_lens"][count * stride :] == [1] * len(padding)


@pytest.mark.parametrize("mode", ["decode", "verify", "extend v2"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_forward_without_a_graph_fetches_what_it_plans_with(
    trees: tuple[DrivenTree, DrivenTree], mode: str, page_size: int
) -> None:
    before, after = trees
    batch = BATCH | ({"accepted": [1, 1, 1]} if mode == "decode" else {})
    server = SERVER | {"page_size": page_size}
    expected = before.ask("sparse_attention.eager", server, mode, batch)
    assert after.ask("sparse_attention.eager", server, mode, batch) == expected
    assert after.ask("sparse_attention.eager", server, mode, batch, mirror=False) == expected
    with pytest.raises(ProbeError):
        before.ask("sparse_attention.eager", server, mode, batch, mirror=False)


@pytest.mark.parametrize("mode", ["decode", "verify", "extend v2"])
def test_a_request_at_its_limit_has_a_row_in_the_table(
    trees: tuple[DrivenTree, DrivenTree], mode: str
) -> None:
    before, after = trees
    longest = WIDTH - (TOKENS if mode == "verify" else 0)
    batch = BATCH | {"lens": [longest, 65, 17]}
    session = {"server": SERVER, "mode": mode, "graphs": [4], "batches": [batch]}
    (result,) = after.ask("sparse_attention.replays", session, "none")
    assert len(result["tokens"][0]) == WIDTH
    # The table of the tree as it is ends with the context and a draft.
    with pytest.raises(ProbeError, match="size"):
        before.ask("sparse_attention.replays", session, "true")


@pytest.mark.parametrize("steps", [2, 3, 5])
def test_the_steps_of_a_draft_are_planned_alike(trees: tuple[DrivenTree, DrivenTree], steps: int) -> None:
    before, after = trees
    server = SERVER | {"steps": steps}
    theirs = before.ask("sparse_attention.steps", server, [2, 4], BATCH, mirror=True)
    for mirror in (True, False):
        ours = after.ask("sparse_attention.steps", server, [2, 4], BATCH, mirror=mirror)
        assert len(ours) == len(theirs) == steps - 1
        for one, other in zip(ours, theirs, strict=True):
            assert one["lens"] == [*BATCH["lens"], 1]
            assert_same(one, other, 4, 64)
            assert one["host_reads"] == 0


@pytest.mark.parametrize("mode", ["decode", "verify"])
def test_switched_off_a_replay_copies_as_before(trees: tuple[DrivenTree, DrivenTree], mode: str) -> None:
    before, after = trees
    session = {"server": SERVER, "mode": mode, "graphs": [2, 4], "batches": [BATCH]}
    (theirs,) = before.ask("sparse_attention.replays", session, "true")
    (ours,) = after.ask("sparse_attention.replays", session, "true", disable="29413")
    assert_same(ours, theirs, 4, 64)
    tokens = [row[: len(theirs["tokens"][0])] for row in ours["tokens"]]
    assert tokens == theirs["tokens"]


def test_the_backend_and_its_steps_declare_that_they_need_no_mirror(
    trees: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = trees
    assert after.ask("sparse_attention.flags") == (False, False)
    assert False not in before.ask("sparse_attention.flags")
    assert not after.ask("sparse_attention.keeps_mirror")
    assert after.ask("sparse_attention.keeps_mirror", disable="29413")
    assert before.ask("sparse_attention.keeps_mirror")


@pytest.mark.parametrize(
    ("options", "captured"),
    [
        ({}, ["plain"]),
        ({"topk": 4}, []),
        ({"cuda": False}, []),
        ({"environment": {"SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": "1"}}, []),
        ({"environment": {"PATCHKIT_DISABLE": "29413"}}, []),
        ({"environment": {"PATCHKIT_DISABLE": "pk-fa3-draft-extend-graph"}}, ["plain"]),
    ],
    ids=["plain", "top-k 4", "no CUDA", "no graph", "off", "FlashAttention off"],
)
def test_its_v2_draft_extend_has_a_graph_on_cuda(
    trees: tuple[DrivenTree, DrivenTree], options: dict[str, Any], captured: list[str]
) -> None:
    before, after = trees
    options = {"environment": {}} | options
    result = after.ask("sparse_attention.captures", **options)
    assert [kind for kind, does in result.items() if does] == captured
    assert not any(before.ask("sparse_attention.captures", **options).values())


def test_it_looks_at_no_tree_mask_and_has_a_small_one(trees: tuple[DrivenTree, DrivenTree]) -> None:
    before, after = trees
    for tree, chosen in ((before, "FULL_MASK"), (after, "QLEN_ONLY")):
        looks = tree.ask("verify_mask.looks", "sparse", SERVER, BATCH)
        assert looks == {"eager": False, "capture": False, "replay": False}
        assert tree.ask("verify_mask.chosen", "sparse", SERVER) == chosen
    assert after.ask("verify_mask.chosen", "sparse", SERVER | {"topk": 4}) == "FULL_MASK"
