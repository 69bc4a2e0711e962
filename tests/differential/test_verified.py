"""A greedy verify of one chain, and all that a step takes of it, whether one launch makes it or a row of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with_each
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Case = dict[str, Any]
VOCABULARY = 3
DERIVING = {"zeros", "full", "cumprod", "index"}

before_and_after = without_and_with_each(
    "pk-verify-outputs", ["0.5.11", "0.5.12.post1", "0.5.13", "0.5.14", "0.5.15", "0.5.18", "0.5.21"]
)

# Before 0.5.13 a batch of several branches has the v1 worker.
of_trees = without_and_with_each("pk-accepted-paths", ["0.5.13", "0.5.14", "0.5.16", "0.5.21"])


@st.composite
def cases(draw: st.DrawFn, *, topk: int = 1, least: int = 2) -> Case:
    """Requests whose drafts are often right: there are few tokens to choose from."""
    rows, tokens = draw(st.integers(1, 5)), draw(st.integers(least, 6))

    def some() -> list[list[int]]:
        token = st.integers(0, VOCABULARY - 1)
        return draw(st.lists(st.lists(token, min_size=tokens, max_size=tokens), min_size=rows, max_size=rows))

    lens = draw(st.lists(st.integers(1, 2**33), min_size=rows, max_size=rows))
    return {"drafts": some(), "targets": some(), "lens": lens, "vocabulary": VOCABULARY, "topk": topk}


@examples(8)
@given(st.lists(cases(), min_size=1, max_size=8))
def test_whatever_follows_from_a_verified_chain_is_as_unpatched(
    before_and_after: tuple[DrivenTree, DrivenTree], drawn: list[Case]
) -> None:
    before, after = (tree.ask_many("verified.step", [(case,) for case in drawn]) for tree in before_and_after)
    assert [each["found"] for each in after] == [each["found"] for each in before]


@st.composite
def trees(draw: st.DrawFn) -> Case:
    """Requests whose tokens each follow any one before."""
    depth = draw(st.integers(2, 4))
    case = draw(cases(topk=3, least=depth))
    lens = draw(st.lists(st.integers(1, 30), min_size=len(case["lens"]), max_size=len(case["lens"])))
    return case | {"depth": depth, "seed": draw(st.integers(0, 999)), "lens": lens}


@examples(8)
@given(st.lists(trees(), min_size=1, max_size=8))
def test_whatever_follows_from_a_verified_tree_is_as_unpatched(
    of_trees: tuple[DrivenTree, DrivenTree], drawn: list[Case]
) -> None:
    before, after = (tree.ask_many("verified.step", [(case,) for case in drawn]) for tree in of_trees)
    assert [each["found"] for each in after] == [each["found"] for each in before]
    for switch in ("pk-verify-outputs", "pk-accepted-paths"):
        off = of_trees[1].ask_many("verified.step", [(case, switch) for case in drawn])
        assert [each["found"] for each in off] == [each["found"] for each in before]


def test_an_accepted_path_moves_with_few_operations(of_trees: tuple[DrivenTree, DrivenTree]) -> None:
    case = CHAINS | {"topk": 3, "depth": 3, "seed": 1}
    before, after = (tree.ask("verified.step", case) for tree in of_trees)
    assert after["found"] == before["found"]
    # Without a GPU what a kernel computes is not one launch.
    assert before["operators"].count("clone") == after["operators"].count("clone") + 2


CHAINS: Case = {
    "drafts": [[0, 1, 2, 0], [1, 1, 1, 1]],
    "targets": [[1, 2, 2, 0], [1, 1, 1, 2]],
    "lens": [7, 9],
    "vocabulary": VOCABULARY,
    "topk": 1,
}
OTHERS = {
    "several branches": CHAINS | {"topk": 3},
    "a sampled batch": CHAINS | {"sampled": True},
}


def test_a_chain_is_copied_to_the_host_once(before_and_after: tuple[DrivenTree, DrivenTree]) -> None:
    results = [tree.ask("verified.step", CHAINS) for tree in before_and_after]
    tokens = results[1]["found"]["tokens"]
    assert tokens == results[0]["found"]["tokens"] == ["torch.int32", [1, 2, 2, 0, 1, 1, 1, 2]]
    assert results[1]["found"]["accepted"] == ["torch.int32", [3, 4]]
    assert results[1]["operators"].count("zeros") < results[0]["operators"].count("zeros")


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_greedy_chain_goes_the_way_that_it_went(
    before_and_after: tuple[DrivenTree, DrivenTree], other: str
) -> None:
    before, after = (tree.ask("verified.step", OTHERS[other]) for tree in before_and_after)
    assert after["found"] == before["found"]
    assert "zeros" in after["operators"]


def test_switched_off_a_chain_goes_the_way_that_it_went(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    off = after.ask("verified.step", CHAINS, "pk-verify-outputs,pk-small-launches")
    assert off["found"] == before.ask("verified.step", CHAINS)["found"]
    assert "zeros" in off["operators"]
