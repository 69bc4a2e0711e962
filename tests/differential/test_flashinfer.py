"""FlashInfer's draft-extend graph: planned as upstream's own is, by the host only where that is the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.backdated import backdate, lay_out
from support.driven.graph_sessions import sessions
from support.driven.trees import DEFAULT, OPTIONAL, DrivenTree, ProbeError, as_released, with_patches
from support.releases import REFERENCE, run
from support.sweeps import examples

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.releases import Releases

EXAMPLES = examples(4)
SESSIONS = st.lists(sessions(["extend v2"], [1], named=True), min_size=3)
UNLIKE = ["window", "cross", "multimodal", "deterministic", "fork", "latent", "version 3"]
COPIES = 3
"""What FlashInfer takes to the host for a plan: where queries start, where keys do, how full last pages are."""

Sessions = list[dict[str, Any]]


@pytest.fixture(scope="module")
def having(releases: Releases) -> DrivenTree:
    """The first release that has upstream's own graph."""
    return as_released(releases, "0.5.14")


@pytest.fixture(scope="module")
def capturing_by_replay(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenTree]:
    """The patched release with the capture that main had for ten days."""
    folder = tmp_path_factory.mktemp("driven")

    def make() -> Path:
        root = lay_out(backdate(releases.tree(REFERENCE), ("replayed-capture",)), releases, folder).root
        run("apply", root, "28782")
        return root

    tree = DrivenTree("capturing by replay", make)
    yield tree
    tree.stop()


def driven(
    tree: DrivenTree, drawn: Sessions, mirror: str = "true", *, off: str = "", **how: Any
) -> tuple[Sessions, list[list[int]]]:
    """Return what each session's captures and replays left for the kernels, and the copies of each replay."""
    requests = [((session, mirror, {"PATCHKIT_DISABLE": off}), how) for session in drawn]
    results = tree._worker.ask("flashinfer.replays", requests)
    waits = [[replay.pop("waits") for replay in session["replayed"]] for session in results]
    for session in results:
        for capture in session["captured"]:
            capture.pop("waits")
    return results, waits


@EXAMPLES
@given(drawn=SESSIONS)
def test_a_graph_is_planned_as_upstreams_own(
    patched: DrivenTree, hardened: DrivenTree, having: DrivenTree, drawn: Sessions
) -> None:
    expected, waits = driven(having, drawn, listed=False)
    assert not any(map(sum, waits))
    for tree in (patched, hardened):
        assert driven(tree, drawn)[0] == expected


@EXAMPLES
@given(drawn=SESSIONS)
def test_a_graph_is_planned_as_one_of_v1_in_which_every_token_was_accepted(
    unpatched: DrivenTree, patched: DrivenTree, drawn: Sessions
) -> None:
    expected = driven(unpatched, drawn, all_accepted=True)
    assert driven(patched, drawn)[0] == expected[0]
    assert driven(patched, drawn, all_accepted=True) == expected


@EXAMPLES
@given(drawn=SESSIONS)
def test_a_capture_that_the_tree_has_planned_by_its_replay_is_planned_as_any(
    patched: DrivenTree, capturing_by_replay: DrivenTree, drawn: Sessions
) -> None:
    assert driven(capturing_by_replay, drawn) == driven(patched, drawn)


@EXAMPLES
@given(drawn=SESSIONS)
def test_the_host_waits_for_the_first_plan_of_each_graph_alone(patched: DrivenTree, drawn: Sessions) -> None:
    _, waits = driven(patched, drawn)
    for session, counts in zip(drawn, waits, strict=True):
        sizes = [batch["graph"] for batch in session["batches"]]
        assert counts == [0 if size in sizes[:number] else COPIES for number, size in enumerate(sizes)]


@EXAMPLES
@given(drawn=SESSIONS, mirror=st.sampled_from(["none", "stale", "wrong"]))
def test_lengths_unknown_to_the_host_are_planned_from_the_device(
    patched: DrivenTree, drawn: Sessions, mirror: str
) -> None:
    results, waits = driven(patched, drawn, mirror)
    assert results == driven(patched, drawn)[0]
    assert {wait for session in waits for wait in session} == {COPIES}


@EXAMPLES
@given(drawn=SESSIONS, behaviour=st.sampled_from(["refuses", "otherwise"]))
def test_a_flashinfer_that_plans_otherwise_from_the_host_plans_as_ever(
    patched: DrivenTree, drawn: Sessions, behaviour: str
) -> None:
    results, waits = driven(patched, drawn, behaviour=behaviour)
    assert results == driven(patched, drawn)[0]
    for session, waited in zip(drawn, waits, strict=True):
        sizes = [batch["graph"] for batch in session["batches"]]
        # The first of each is planned, compared, and planned again.
        assert waited == [COPIES * (1 if size in sizes[:at] else 2) for at, size in enumerate(sizes)]


@EXAMPLES
@given(drawn=SESSIONS)
def test_the_switch_has_every_replay_planned_from_the_device(patched: DrivenTree, drawn: Sessions) -> None:
    results, waits = driven(patched, drawn, off="28782/host-plan")
    assert results == driven(patched, drawn)[0]
    assert {wait for session in waits for wait in session} == {COPIES}


def test_a_backend_that_no_worker_requested_takes_no_such_graph(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    session = {"server": {"context": 64, "page_size": 1, "draft_tokens": 4}, "graphs": [1], "batches": []}
    for tree in (unpatched, patched):
        with pytest.raises(ProbeError, match="Invalid mode"):
            tree.ask("flashinfer.replays", session, "true", {}, listed=False)


def test_the_v2_draft_extend_has_a_graph_on_cuda(unpatched: DrivenTree, patched: DrivenTree) -> None:
    kinds = ["plain", *UNLIKE]
    assert not any(unpatched.ask("flashinfer.captures", kinds, {}).values())
    assert patched.ask("flashinfer.captures", kinds, {}) == {kind: kind == "plain" for kind in kinds}
    assert not any(patched.ask("flashinfer.captures", kinds, {}, cuda=False).values())


@pytest.mark.parametrize(
    ("environment", "server_args", "captured"),
    [
        ({"SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": "1"}, {}, False),
        ({"SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH": "false"}, {}, True),
        ({"PATCHKIT_DISABLE": "28782"}, {}, False),
        ({"PATCHKIT_DISABLE": "pk-fa3-draft-extend-graph,28782/host-plan"}, {}, True),
        ({}, {"token_map": "tokens.pt"}, False),
    ],
)
def test_a_switch_or_a_part_of_the_vocabulary_keeps_the_graph_out(
    patched: DrivenTree, environment: dict[str, str], server_args: dict[str, Any], captured: bool
) -> None:
    result = patched.ask("flashinfer.captures", ["plain"], environment, **server_args)
    assert result == {"plain": captured}


def test_a_graph_is_as_wide_as_what_a_request_extends_by(patched: DrivenTree, hardened: DrivenTree) -> None:
    # A tree of several branches: a runner that counts the draft's steps captures less than there is.
    assert patched.ask("flashinfer.captures", ["plain"], {}, tokens=8, steps=3) == {"plain": False}
    assert hardened.ask("flashinfer.captures", ["plain"], {}, tokens=8, steps=3) == {"plain": True}
    assert hardened.ask("flashinfer.captures", ["plain"], {}, tokens=8, draft_tokens=4) == {"plain": False}


def verifies(
    tree: DrivenTree, drawn: Sessions, mirror: str = "true", *, branches: int = 1, **how: Any
) -> tuple[Sessions, list[list[int]], set[bool]]:
    """Return what each session's verifies left for the kernels, the copies of each, and whether they had masks."""
    results, waits = driven(tree, drawn, mirror, branches=branches, listed=False, **how)
    masked = {replay.pop("masked") for session in results for replay in session["replayed"]}
    return results, waits, masked


CHAINS = st.lists(sessions(["verify"], [1], named=True), min_size=3)


@EXAMPLES
@given(drawn=CHAINS)
def test_the_verify_of_a_chain_is_planned_without_a_mask_and_waited_for_once(
    unpatched: DrivenTree, opted_out: DrivenTree, drawn: Sessions
) -> None:
    expected, _, masked = verifies(unpatched, drawn)
    assert masked == {True}
    assert verifies(opted_out, drawn) == (expected, plans(drawn, COPIES, 0), {False})
    hows: list[tuple[str, dict[str, Any]]] = [("wrong", {}), ("true", {"off": "28782/host-plan"})]
    for mirror, how in hows:
        assert verifies(opted_out, drawn, mirror, **how) == (expected, plans(drawn, COPIES, COPIES), {False})


@EXAMPLES
@given(drawn=CHAINS)
def test_the_verify_of_branches_keeps_its_mask(
    unpatched: DrivenTree, opted_out: DrivenTree, drawn: Sessions
) -> None:
    expected = verifies(unpatched, drawn, branches=2)
    assert expected[-1] == {True}
    assert verifies(opted_out, drawn, branches=2) == expected
    expected = verifies(unpatched, drawn)
    assert verifies(opted_out, drawn, off="pk-flashinfer-lengths/chains") == expected


@EXAMPLES
@given(drawn=CHAINS)
def test_the_verify_of_a_chain_of_the_successor_is_planned_without_a_mask(
    upstream: DrivenTree, hardened_opted_out: DrivenTree, drawn: Sessions
) -> None:
    planned = verifies(hardened_opted_out, drawn)
    assert (planned[0], planned[2]) == (verifies(upstream, drawn)[0], {False})


def verified(
    tree: DrivenTree, drawn: Sessions, mirror: str = "true", *, off: str = "", behaviour: str = ""
) -> tuple[list[Any], list[list[int]]]:
    """Return what replays of each session's verify left for the kernels, and the copies of each replay."""
    requests = [(session, mirror, {"PATCHKIT_DISABLE": off}, behaviour) for session in drawn]
    results = tree.ask_many("flashinfer.latent_verifies", requests)
    return results, [[replay.pop("waits") for replay in session] for session in results]


def plans(drawn: Sessions, of_first: int, of_next: int) -> list[list[int]]:
    """Return the copies of each replay where the first of each graph has its own."""
    sizes = [[batch["graph"] for batch in session["batches"]] for session in drawn]
    return [
        [of_next if size in before[:at] else of_first for at, size in enumerate(before)] for before in sizes
    ]


VERIFIES = st.lists(sessions(["verify"], [1], named=True), min_size=3)


@EXAMPLES
@given(drawn=VERIFIES)
def test_a_multi_latent_verify_is_planned_as_before_and_waited_for_once(
    unpatched: DrivenTree, opted_out: DrivenTree, drawn: Sessions
) -> None:
    expected, waits = verified(unpatched, drawn)
    assert waits == plans(drawn, COPIES, COPIES)
    assert verified(opted_out, drawn) == (expected, plans(drawn, COPIES, 0))
    for mirror, how in (("wrong", {}), ("none", {}), ("true", {"off": "27689"})):
        assert verified(opted_out, drawn, mirror, **how) == (expected, waits)
    for behaviour in ("refuses", "otherwise"):
        assert verified(opted_out, drawn, behaviour=behaviour) == (expected, plans(drawn, 2 * COPIES, COPIES))


@pytest.fixture(scope="module")
def having_opted_out(releases: Releases) -> DrivenTree:
    return with_patches(releases, "having opted out", (*DEFAULT, *OPTIONAL), "0.5.14")


@EXAMPLES
@given(drawn=VERIFIES)
def test_a_multi_latent_verify_of_a_worker_whose_mirror_is_a_bound_is_planned_as_before(
    having: DrivenTree, having_opted_out: DrivenTree, drawn: Sessions
) -> None:
    requests: list[tuple[Any, ...]] = [(session, "bound", {}, "", "dflash") for session in drawn]
    expected = having.ask_many("flashinfer.latent_verifies", requests)
    # The bound of a graph's first batch is what it bounds, so that the two plans of that batch are the same.
    assert having_opted_out.ask_many("flashinfer.latent_verifies", requests) == expected
    # A worker that has the lengths themselves is planned from them.
    assert verified(having_opted_out, drawn) == (verified(having, drawn)[0], plans(drawn, 0, 0))


@EXAMPLES
@given(drawn=VERIFIES)
def test_a_multi_latent_verify_of_the_successor_is_planned_as_before(
    upstream: DrivenTree, hardened_opted_out: DrivenTree, drawn: Sessions
) -> None:
    # Its capture goes the way of the replay, and is the first plan.
    assert verified(hardened_opted_out, drawn) == (verified(upstream, drawn)[0], plans(drawn, 0, 0))


def test_a_multi_latent_draft_extend_is_planned_as_before_and_waited_for_once(
    unpatched: DrivenTree, opted_out: DrivenTree
) -> None:
    server = {"context": 200, "page_size": 1, "draft_tokens": 4}
    batch = {"rows": [3, 9, 5], "lens": [40, 65, 17], "accepted": [4, 4, 4]}
    modes = ["extend v2", "extend", "extend v2", "extend v2"]
    expected = unpatched.ask("flashinfer.latent_extends", server, modes, batch, {})
    assert [each.pop("waits") for each in expected] == [COPIES] * 4
    for off, behaviour, waits in (
        ("", "", [COPIES, COPIES, 0, 0]),
        ("27689", "", [COPIES] * 4),
        ("", "refuses", [2 * COPIES, *[COPIES] * 3]),
    ):
        options = ({"PATCHKIT_DISABLE": off}, behaviour)
        results = opted_out.ask("flashinfer.latent_extends", server, modes, batch, *options)
        assert [result.pop("waits") for result in results] == waits
        assert results == expected
