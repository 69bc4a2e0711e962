"""A draft-extend computes logits of the last accepted token of each request, and passes on the same values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Both = tuple["DrivenTree", "DrivenTree"]
TOKENS = 4
# The first is the largest, so that what it leaves behind is in reach of the smaller ones, two of which are padded.
BATCHES = [[1, 4, 2, 3, 4, 1], [3], [2, 4, 1], [4, 1]]
CAPTURED = [2, 4, 8]


before_and_after = without_and_with_each("35546", ["0.5.11", "0.5.13.post1", "0.5.14", "0.5.17"])


def case(**named: Any) -> dict[str, Any]:
    return {"draft_tokens": TOKENS, "captured": CAPTURED, **named}


def assert_handed_on(results: list[dict[str, Any]], was: list[dict[str, Any]]) -> None:
    """Compare the tokens that are drafted next, and their scores and states, which a product of other rows rounds."""
    assert [result["tokens"] for result in results] == [result["tokens"] for result in was]
    for name in ("scores", "states"):
        expected = [[pytest.approx(row) for row in each[name]] for each in was]
        assert [result[name] for result in results] == expected


def heads(results: list[dict[str, Any]]) -> list[list[int]]:
    return [result["heads"] for result in results]


def padded(count: int) -> int:
    return next(size for size in CAPTURED if size >= count)


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("full", [True, False])
def test_an_eager_draft_extend_has_one_row_a_request_in_the_lm_head(
    before_and_after: Both, layers: int, full: bool
) -> None:
    before, after = before_and_after
    options = case(graph=False, layers=layers, full=full)
    was, result = (tree.ask("accepted_rows.extended", options, BATCHES) for tree in (before, after))
    assert_handed_on(result, was)
    assert heads(was) == [[len(accepted) * TOKENS] for accepted in BATCHES]
    assert heads(result) == [[len(accepted)] for accepted in BATCHES]


@pytest.mark.parametrize("layers", [0, 2])
def test_a_graph_has_one_lm_head_row_per_request_and_keeps_its_other_outputs(
    before_and_after: Both, layers: int
) -> None:
    before, after = before_and_after
    options = case(graph=True, layers=layers)
    was, result = (tree.ask("accepted_rows.extended", options, BATCHES) for tree in (before, after))
    assert_handed_on(result, was)
    assert heads(was) == [[padded(len(accepted)) * TOKENS] for accepted in BATCHES]
    assert heads(result) == [[padded(len(accepted))] for accepted in BATCHES]


def test_a_graph_of_more_requests_than_the_batch_has_tokens_is_unpadded(before_and_after: Both) -> None:
    before, after = before_and_after
    options = case(graph=True) | {"captured": [8]}
    was, result = (tree.ask("accepted_rows.extended", options, [[3], [2, 1]]) for tree in (before, after))
    assert_handed_on(result, was)
    assert heads(result) == [[8], [8]]


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize(
    ("switched", "more"),
    [("35546", {}), ("", {"ranks": True}), ("", {"asks": False})],
    ids=["switched off", "DP attention", "a head of the model's own"],
)
def test_all_rows_are_computed_as_before(
    before_and_after: Both, graph: bool, switched: str, more: dict[str, Any]
) -> None:
    before, after = before_and_after
    options = case(graph=graph, **more)
    was = before.ask("accepted_rows.extended", options, BATCHES)
    result = after.ask("accepted_rows.extended", options, BATCHES, switched)
    assert result == was


@pytest.mark.parametrize("graph", [True, False])
def test_a_draft_of_one_token_a_request_has_the_rows_that_it_had(before_and_after: Both, graph: bool) -> None:
    before, after = before_and_after
    options = case(graph=graph) | {"draft_tokens": 1}
    was, result = (tree.ask("accepted_rows.extended", options, [[1, 1, 1], [1]]) for tree in (before, after))
    assert result == was


def test_a_forks_worker_that_names_no_rows_is_handed_all(before_and_after: Both) -> None:
    was, result = (tree.ask("accepted_rows.extended_by_fork", case(), [1, 4, 2]) for tree in before_and_after)
    assert len(result) == 3 * TOKENS
    assert result == was
