"""A verify's tree mask is written and read inside its memory, whoever wraps the backend and however large the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.graph_sessions import CONTEXT, WIDTH
from support.driven.trees import DEFAULT, OPTIONAL, DrivenTree, with_patches

if TYPE_CHECKING:
    from support.releases import Releases

TOKENS, GRAPH = 4, 4
SERVER = {"context": CONTEXT, "page_size": 1, "draft_tokens": TOKENS, "topk": 1, "steps": 3}
OWNERS = (
    "triton",
    "linear triton",
    "triton+mha",
    "linear triton+mha",
    "linear triton+linear mha",
    "linear linear triton",
    "wrapped triton",
    "linear wrapped triton",
    "fork",
    "linear fork",
    "wrapped fork",
)
"""Backends whose verify reads the mask, and what wraps them; ``a+b`` verifies with a."""
IN_PLACE = [owner for owner in OWNERS if "wrapped" not in owner and "fork" not in owner]
LENS = (17, WIDTH - TOKENS)
"""Of a short request, and of one at its row's end."""
# One below the largest graph, as large, and one above.
BATCHES = [[length] * count for count in (1, GRAPH - 1, GRAPH, GRAPH + 1) for length in LENS]


@pytest.fixture(scope="module", params=["0.5.11", "0.5.12.post1", "0.5.13", "0.5.14"])
def tree(request: pytest.FixtureRequest, releases: Releases) -> DrivenTree:
    """Releases of every form that the worker's question and the backend's replay have, with all patches."""
    every = (*DEFAULT, *OPTIONAL)
    return with_patches(releases, request.param, every, request.param)


def verified(
    tree: DrivenTree, kind: str, batches: list[list[int]] = BATCHES, *more: Any
) -> list[dict[str, Any]]:
    return tree.ask_many("tree_mask.verified", [(kind, SERVER, lens, GRAPH, *more) for lens in batches])


def assert_inside(results: list[dict[str, Any]], batches: list[list[int]] = BATCHES) -> None:
    for each, lens in zip(results, batches, strict=True):
        assert (each["written_past"], each["read_past"]) == (0, 0), lens
        assert each["sees"], lens


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", OWNERS)
def test_a_mask_is_written_and_read_inside_its_memory(tree: DrivenTree, kind: str, known: bool) -> None:
    # A fork's own graphs have no room for requests that are all at their row's end.
    short = "fork" in kind
    batches = [lens for lens in BATCHES if not (short and len(lens) == GRAPH and lens[0] > CONTEXT - TOKENS)]
    assert_inside(verified(tree, kind, batches, known), batches)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("disable", ["", "pk-triton-replay"])
@pytest.mark.parametrize("kind", IN_PLACE)
def test_a_batch_that_has_a_graph_fills_the_graphs_own_mask(
    tree: DrivenTree, kind: str, disable: str, known: bool
) -> None:
    for result, lens in zip(verified(tree, kind, BATCHES, known, disable), BATCHES, strict=True):
        # One above has room there if it is known to be short.
        has_room = len(lens) <= GRAPH or (known and sum(lens) < WIDTH)
        assert result["in_the_graphs_own"] is has_room, lens
        if len(lens) <= GRAPH:
            assert known or result["host_reads"] == 0
            # A row that sees nothing would be NaN, which a scale over the whole batch would spread.
            assert result["padding_sees"], lens


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", IN_PLACE)
def test_a_graphs_mask_is_filled_only_as_far_as_a_new_one_would_be_made(
    tree: DrivenTree, kind: str, known: bool
) -> None:
    def written(graph: int | None) -> list[int]:
        requests = [("eagle", kind, SERVER, lens, graph, known) for lens in BATCHES]
        return tree.ask_many("tree_mask.written", requests)

    for lens, filled, made in zip(BATCHES, written(GRAPH), written(None), strict=True):
        padding = max(GRAPH - len(lens), 0) * TOKENS * (1 + TOKENS)
        assert filled <= made + padding, lens


def test_a_mask_that_a_forks_graphs_have_no_room_for_is_written_inside_its_memory(tree: DrivenTree) -> None:
    (result,) = verified(tree, "fork", [[WIDTH - TOKENS] * GRAPH])
    assert result["written_past"] == 0
    assert result["host_reads"] == 0


@pytest.mark.parametrize("kind", ["triton", "triton+mha"])
def test_before_the_patch_a_batch_above_the_largest_graph_was_written_past_it(
    unpatched: DrivenTree, kind: str
) -> None:
    # A hybrid handed out no buffer then, and its mask was as large as its batch.
    result = verified(unpatched, kind, [[WIDTH - TOKENS] * (GRAPH + 1)], True)
    assert (result[0]["written_past"] > 0) is (kind == "triton")


def test_before_the_patch_a_full_batch_at_its_rows_end_was_written_past_the_graphs_mask(
    unpatched: DrivenTree,
) -> None:
    (result,) = verified(unpatched, "triton", [[WIDTH - TOKENS] * GRAPH], True)
    assert result["written_past"] > 0


@pytest.mark.parametrize("kind", ["own", "handing triton"])
def test_a_mask_whose_owner_has_no_context_length_is_the_verifys_as_in_the_release(
    tree: DrivenTree, upstream: DrivenTree, kind: str
) -> None:
    requests = [(kind, SERVER, lens, GRAPH) for lens in BATCHES if len(lens) <= GRAPH]
    results = tree.ask_many("tree_mask.handed_out", requests)
    assert results == upstream.ask_many("tree_mask.handed_out", requests)
    assert {(result["handed_out"], result["host_reads"]) for result in results} == {(True, 0)}
