"""The check of a verify's tree mask: cases, guards, verdict and refusals, and what it has trees do, without a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner

SCRIPTS = Path(__file__).parents[2] / "scripts"
sys.path[:0] = [str(SCRIPTS)]

import check_tree_mask as check  # noqa: E402

from patchkit.errors import PatchkitError  # noqa: E402

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree


def outcome(tree: str, overflow: bool | None, error: str | None = None) -> check.Outcome:
    return check.Outcome(tree, check.drawn_up(4, 64, 3)[0], 1, overflow, error)


@pytest.mark.parametrize("graph", [1, 8])
def test_batches_are_around_the_largest_graph_and_requests_up_to_their_rows_end(graph: int) -> None:
    cases = check.drawn_up(graph, 64, 4)
    assert {case.count for case in cases} == {graph - 1, graph, graph + 1} - {0}
    assert max(case.length + case.tokens for case in cases) == cases[0].row
    # What the releases have for the largest graph is too small for one above it, and for one as large at its end.
    sizes = {case.count: case.written for case in cases if case.length > 64}
    assert all(sizes[count] > graph * 4 * 64 for count in (graph, graph + 1))


@pytest.mark.parametrize(
    "made", [lambda: torch.zeros(10), lambda: torch.ones(3).new_ones(7, dtype=torch.bool)]
)
@pytest.mark.parametrize(("at", "broken"), [(-1, True), (0, False), ("last", False), ("end", True)])
def test_guards_notice_what_is_written_beside_an_allocation(made: Any, at: Any, broken: bool) -> None:
    guards = check.Guards(600)
    with guards:
        tensor = made()
    assert tensor.tolist() == made().tolist()
    at = {"last": tensor.numel() - 1, "end": tensor.numel()}.get(at, at)
    torch.as_strided(tensor, (1,), (1,), tensor.storage_offset() + at).fill_(0)
    assert guards.broken() is broken


def test_a_control_has_to_overflow_and_all_others_must_not() -> None:
    sound, over, failed = outcome("a", False), outcome("b", True), outcome("b", None, "KeyError: 1")
    assert check.passed([sound], ())
    assert check.passed([sound, over, failed], ("b",))
    assert not check.passed([sound, over], ())
    assert not check.passed([sound, failed], ("b",))
    assert not check.passed([sound, failed], ())
    # Without guards a sanitizer has the last word.
    assert check.passed([outcome("a", None)], ())


def test_the_table_has_a_line_for_each_size_of_batch() -> None:
    cases = check.drawn_up(4, 64, 3)
    made = check.table([check.Outcome(tree, case, 1, True) for tree in "ab" for case in cases], ("a",))
    assert made.row_count == 2 * len(check.OWNERS) * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tree", "a=nowhere"], "nowhere"),
        (["--tree", "a"], "NAME=PATH"),
        (["--tree", "a=x", "--control", "b"], "--control b is not a tree: add --tree b=PLACE."),
        (["--tree", "a=x", "--control", "a", "--no-guards"], "--no-guards cannot detect the overflow"),
        (["--tree", "a=x", "--graph", "0"], "--graph"),
    ],
)
def test_bad_input_gets_a_sentence(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(check.main, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code != 0
    if isinstance(done.exception, PatchkitError):
        assert message in str(done.exception)
    else:
        assert message in done.output


def test_a_releases_draft_writes_past_its_mask_and_a_patched_ones_does_not(
    unpatched: DrivenTree, patched: DrivenTree
) -> None:
    before, after = (tree.ask("check_tree_mask.outcomes", str(SCRIPTS)) for tree in (unpatched, patched))
    assert [error for _, _, error in after if error] == []
    assert not any(overflow for _, overflow, _ in after)
    # With the mirror the release runs, and Triton alone has no room above the largest graph, nor at it.
    assert {case for case, overflow, _ in before if overflow} == {
        ("triton", 2, "end"), ("triton", 3, "end"), ("triton", 3, "context"),
    }  # fmt: skip


@pytest.mark.parametrize("tokens", [2, 4, 9])
def test_from_each_drafted_token_parents_lead_to_the_first(tokens: int) -> None:
    (parents,), (chosen,), _ = (each.tolist() for each in check.chain(1, tokens, "cpu"))
    for token in range(tokens - 1):
        walked = [token]
        while chosen[walked[-1]] and len(walked) < tokens:
            walked.append(chosen.index(parents[chosen[walked[-1]]]))
        assert walked == list(range(token, -1, -1))
