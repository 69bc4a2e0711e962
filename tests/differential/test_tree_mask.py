from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.graph_sessions import CONTEXT, WIDTH
from support.driven.trees import DEFAULT, DrivenTree, ProbeError, with_patches

if TYPE_CHECKING:
    from support.releases import Releases

TOKENS = 4
SERVER = {"context": CONTEXT, "page_size": 32, "draft_tokens": TOKENS, "topk": 1, "steps": 3}
LENS = [[40, 65, 17], [CONTEXT], [1, 1, 190, 8, 77]]
MODES = ("FULL_MASK", "QLEN_ONLY", "QLEN_ONLY_BITPACKING")
# Preallocated with the graph state, that of TRTLLM MHA never.
PREALLOCATING = ("mla", "triton")
KINDS = ("mha", *PREALLOCATING)


def drafted(
    tree: DrivenTree, worker: str, kind: str, batches: list[list[int]] = LENS, **more: Any
) -> list[dict[str, Any]]:
    """Return what the drafts of all batches led to; ``known`` is whether they know their total.

    The mask is the full one: 32886, which spares it where nobody reads it, is off.
    """
    known = more.pop("known")
    more.setdefault("disable", "32886")
    return [
        tree.ask("tree_mask.drafted", worker, kind, SERVER, lens, total=sum(lens) if known else None, **more)
        for lens in batches
    ]


def full_mask(count: int, total: int) -> int:
    """Return the size of a mask over ``total`` tokens and the draft's own."""
    return total * TOKENS + TOKENS * TOKENS * count


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_of_a_known_total_is_as_before(
    unpatched: DrivenTree, patched: DrivenTree, upstream: DrivenTree, kind: str, mode: str
) -> None:
    result = drafted(unpatched, "eagle", kind, known=True, mode=mode)
    for tree in (unpatched, patched, upstream):
        for worker in ("eagle", "multi-layer"):
            assert drafted(tree, worker, kind, known=True, mode=mode) == result
    assert [each["total"] for each in result] == [sum(lens) for lens in LENS]
    if mode == "FULL_MASK":
        assert [each["mask"][1] for each in result] == [full_mask(len(lens), sum(lens)) for lens in LENS]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_of_an_unknown_total_is_bounded_by_the_pools_rows(
    patched: DrivenTree, upstream: DrivenTree, hardened: DrivenTree, kind: str
) -> None:
    result = drafted(patched, "eagle", kind, known=False)
    assert result == drafted(hardened, "eagle", kind, known=False)
    # The successor's multi-layer worker knows no unknown total.
    assert drafted(patched, "multi-layer", kind, known=False) == result
    # Its bound is the context, which a request at its limit exceeds.
    theirs = drafted(upstream, "eagle", kind, known=False)
    assert [text["total"] for text in theirs] == [len(lens) * CONTEXT for lens in LENS]
    for each, lens in zip(result, LENS, strict=True):
        size = full_mask(len(lens), len(lens) * WIDTH)
        assert each["total"] == len(lens) * WIDTH
        assert each["mask"] == ("torch.bool", size, size)
        assert each["kernel_fills_it"]
        assert not each["preallocated"]
        assert (each["lens"], each["host_reads"]) == (lens, 0)


@pytest.mark.parametrize("worker", ["eagle", "multi-layer"])
@pytest.mark.parametrize("mode", ["QLEN_ONLY", "QLEN_ONLY_BITPACKING"])
def test_a_mask_over_the_draft_alone_does_not_depend_on_the_total(
    patched: DrivenTree, worker: str, mode: str
) -> None:
    masks = [
        [each["mask"] for each in drafted(patched, worker, "mha", known=known, mode=mode)]
        for known in (True, False)
    ]
    assert masks[0] == masks[1]
    assert masks[0][0][1] == len(LENS[0]) * (TOKENS * TOKENS if mode == "QLEN_ONLY" else TOKENS)


@pytest.mark.parametrize("kind", PREALLOCATING)
def test_a_preallocated_mask_is_filled_in_place_as_far_as_the_total_or_its_bound(
    patched: DrivenTree, hardened: DrivenTree, kind: str
) -> None:
    def sizes(answers: list[dict[str, Any]]) -> list[int]:
        return [answer["mask"][1] for answer in answers]

    # And what a graph of five reads of its padding, of one token a request.
    padding = [full_mask(5 - len(lens), 5 - len(lens)) for lens in LENS]
    result = drafted(patched, "eagle", kind, known=False, graph=5)
    assert result == drafted(hardened, "eagle", kind, known=False, graph=5)
    assert drafted(patched, "multi-layer", kind, known=False, graph=5) == result
    for each in result:
        assert (each["preallocated"], each["kernel_fills_it"], each["total"]) == (True, True, None)
        assert each["host_reads"] == 0
    bounds = [full_mask(len(lens), len(lens) * WIDTH) for lens in LENS]
    assert sizes(result) == [bound + more for bound, more in zip(bounds, padding, strict=True)]
    known = drafted(patched, "eagle", kind, known=True, graph=5)
    exact = [full_mask(len(lens), sum(lens)) for lens in LENS]
    assert sizes(known) == [size + more for size, more in zip(exact, padding, strict=True)]
    assert [each["total"] for each in known] == [sum(lens) for lens in LENS]
    assert {each["preallocated"] for each in known} == {True}


@pytest.mark.parametrize("worker", ["eagle", "multi-layer"])
@pytest.mark.parametrize("known", [True, False])
def test_a_batch_above_the_largest_graph_has_a_mask_of_its_own(
    patched: DrivenTree, upstream: DrivenTree, hardened: DrivenTree, worker: str, known: bool
) -> None:
    batches = [[CONTEXT] * count for count in (1, 2, 3, 5)]
    for tree in (patched, hardened):
        result = drafted(tree, worker, "mla", batches, known=known, graph=2)
        for each, lens in zip(result, batches, strict=True):
            assert each["preallocated"] is (len(lens) <= 2)
            assert each["kernel_fills_it"]
            assert each["mask"][1] >= full_mask(len(lens), sum(lens))
    # The successor writes into the graphs' what they have no room for.
    result = drafted(upstream, "eagle", "mla", batches, known=known, graph=2)
    assert {each["preallocated"] for each in result} == {True}
    assert any(
        each["mask"][1] < full_mask(len(lens), sum(lens)) for each, lens in zip(result, batches, strict=True)
    )


@pytest.mark.parametrize("graph", [None, 5])
@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_a_mask_has_room_for_requests_at_their_limit(
    patched: DrivenTree, hardened: DrivenTree, kind: str, graph: int | None
) -> None:
    lens = [WIDTH] * 3
    for tree in (patched, hardened):
        result = tree.ask(
            "tree_mask.drafted", "eagle", kind, SERVER, lens, total=None, graph=graph, disable="32886"
        )
        assert result["mask"][1] >= full_mask(3, sum(lens))


def test_before_the_patch_trtllm_mla_had_no_preallocated_mask(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    answers = [
        {each["preallocated"] for each in drafted(tree, "eagle", "mla", known=True, graph=5)}
        for tree in (unpatched, patched)
    ]
    assert answers == [{False}, {True}]


@pytest.mark.parametrize("worker", ["eagle", "multi-layer"])
def test_before_the_patch_a_mask_needed_the_total(unpatched: DrivenTree, worker: str) -> None:
    with pytest.raises(ProbeError, match="NoneType"):
        drafted(unpatched, worker, "mha", known=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph", [None, 5])
def test_the_successors_multi_layer_mask_needs_the_total_until_it_is_hardened(
    upstream: DrivenTree, hardened: DrivenTree, kind: str, graph: int | None
) -> None:
    if graph is None or kind not in PREALLOCATING:
        with pytest.raises(ProbeError, match="NoneType"):
            drafted(upstream, "multi-layer", kind, known=False, graph=graph)
    result = drafted(hardened, "multi-layer", kind, known=False, graph=graph)
    assert result == drafted(hardened, "eagle", kind, known=False, graph=graph)


@pytest.mark.parametrize("worker", ["eagle", "multi-layer"])
@pytest.mark.parametrize(("kind", "bounded"), [("mha/mha", True), ("mha/mla", False), ("mla/mha", True)])
def test_an_opted_out_hybrids_mask_is_its_verify_sides(
    opted_out: DrivenTree, worker: str, kind: str, bounded: bool
) -> None:
    result = drafted(opted_out, worker, kind, known=False, graph=5)
    side = kind.rpartition("/")[2]
    assert result == drafted(opted_out, worker, side, known=False, graph=5)
    # MLA's is preallocated, or over the draft alone: it is not sized by the total.
    if bounded:
        assert [each["total"] for each in result] == [WIDTH * len(lens) for lens in LENS]


def test_the_mask_of_a_hybrid_that_keeps_the_mirror_is_bounded_too(patched: DrivenTree) -> None:
    result = drafted(patched, "eagle", "mha/mha", known=False)
    assert [each["total"] for each in result] == [len(lens) * WIDTH for lens in LENS]


@pytest.fixture(scope="module", params=["0.5.12.post1", "0.5.13", "0.5.14"])
def asking(request: pytest.FixtureRequest, releases: Releases) -> DrivenTree:
    """Releases whose worker of several layers asks for its mask itself, with patches."""
    return with_patches(releases, request.param, DEFAULT, request.param)


@pytest.mark.parametrize("graph", [None, 5])
@pytest.mark.parametrize("kind", ["mla", "mha", "triton"])
def test_a_worker_of_several_layers_fills_no_mask_that_eagles_does_not(
    asking: DrivenTree, kind: str, graph: int | None
) -> None:
    for lens in LENS:
        given = (kind, SERVER, lens)
        eagle, several = (
            asking.ask("tree_mask.drafted", worker, *given, total=None, graph=graph)
            for worker in ("eagle", "multi-layer")
        )
        assert several == eagle
        needed, taken = (
            asking.ask("tree_mask.written", worker, *given, graph) for worker in ("eagle", "multi-layer")
        )
        assert taken == needed
        if kind != "triton":
            # Of one over the context, which those kinds never read, nothing is there.
            assert several["mask"][1] == len(lens) * TOKENS * TOKENS
            assert taken < full_mask(len(lens), len(lens) * CONTEXT)
