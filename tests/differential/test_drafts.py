"""Drafts of one branch: the same trees as with a softmax, a sort and gathers, which only other drafts still need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Case = dict[str, Any]
CHAIN = ("26397", "26424")
SELECTING = {"softmax", "_softmax", "sort", "topk", "gather", "index_select", "repeat_interleave"}


@st.composite
def cases(draw: st.DrawFn, *, topk: int | None = None) -> Case:
    """A worker and its batches; one of one branch drafts a token more than it has steps, as servers do."""
    branches = draw(st.integers(2, 3)) if topk is None else topk
    steps = draw(st.integers(1, 4))
    most = 1 + branches + (steps - 1) * branches * branches
    return {
        "topk": branches,
        "steps": steps,
        "draft_tokens": steps + 1 if branches == 1 else draw(st.integers(2, most)),
        "rows": draw(st.integers(1, 6)),
        "times": 2,
        "vocabulary": 11,
        "seed": draw(st.integers(0, 1000)),
        "hot": draw(st.booleans()),
        "states": draw(st.booleans()),
    }


def tree_of(answer: dict[str, Any]) -> list[Any]:
    """Return what the verify's tree is built from; of a single step there are no parents, of whatever dtype."""
    return [
        [parents[1] if parents[1] and not parents[1][0] else parents, order, tokens]
        for parents, order, tokens in answer["trees"]
    ]


def but_for_copied_slots(answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out the copies with which every draft, whatever is switched off, has a step's slots beside each other."""
    return answer | {"operators": [name for name in answer["operators"] if name != "clone"]}


@examples(15)
@given(cases(topk=1))
def test_a_draft_of_one_branch_is_as_unpatched_and_selects_nothing(
    unpatched: DrivenTree, patched: DrivenTree, case: Case
) -> None:
    before, answer = (tree.ask("drafts.draft", case) for tree in (unpatched, patched))
    assert tree_of(answer) == tree_of(before)
    assert answer["given"] == before["given"]
    assert not SELECTING & set(answer["operators"])
    # The second batch makes no tensor that is the same in both.
    assert not {"arange", "ones", "ones_like"} & set(answer["operators"])


@examples(10)
@given(cases())
def test_a_draft_of_several_branches_goes_the_way_that_it_went(
    unpatched: DrivenTree, patched: DrivenTree, case: Case
) -> None:
    before, answer = (tree.ask("drafts.draft", case) for tree in (unpatched, patched))
    assert but_for_copied_slots(answer) == but_for_copied_slots(before)


@examples(5)
@given(cases(topk=1))
def test_switched_off_a_draft_of_one_branch_goes_the_way_that_it_went(
    unpatched: DrivenTree, patched: DrivenTree, case: Case
) -> None:
    before, answer = unpatched.ask("drafts.draft", case), patched.ask("drafts.draft", case, ",".join(CHAIN))
    assert but_for_copied_slots(answer) == but_for_copied_slots(before)


@pytest.mark.parametrize("off", CHAIN)
@examples(5)
@given(case=cases(topk=1))
def test_one_switched_off_leaves_the_others_right(
    unpatched: DrivenTree, patched: DrivenTree, off: str, case: Case
) -> None:
    before, answer = unpatched.ask("drafts.draft", case), patched.ask("drafts.draft", case, off)
    assert (tree_of(answer), answer["given"]) == (tree_of(before), before["given"])


@examples(5)
@given(cases(topk=1))
def test_a_tree_with_upstreams_chain_also_passes_its_tokens(
    upstream: DrivenTree, hardened: DrivenTree, case: Case
) -> None:
    before, answer = (tree.ask("drafts.draft", case) for tree in (upstream, hardened))
    assert (answer["trees"], answer["given"]) == (before["trees"], before["given"])
    assert len(answer["operators"]) < len(before["operators"]) or case["steps"] == 1


@examples(10)
@given(cases(topk=1), st.data())
def test_a_draft_extend_returns_the_rows_of_the_last_accepted_tokens(
    unpatched: DrivenTree, patched: DrivenTree, case: Case, data: st.DataObject
) -> None:
    accepted = data.draw(st.lists(st.integers(1, case["draft_tokens"]), min_size=1, max_size=6))
    before, answer = (tree.ask("drafts.draft_extend", case, accepted) for tree in (unpatched, patched))
    # Of one branch nobody reads the score.
    scores = before["next"].pop("topk_p")
    assert answer["next"].pop("topk_p") == [[1.0]] * len(scores)
    assert answer["next"] == before["next"]
    off = patched.ask("drafts.draft_extend", case, accepted, "26397,pk-small-launches")
    assert off["next"].pop("topk_p") == scores
    assert off["next"] == before["next"]


@examples(5)
@given(cases(), st.data())
def test_a_draft_extend_of_several_branches_keeps_its_scores(
    unpatched: DrivenTree, patched: DrivenTree, case: Case, data: st.DataObject
) -> None:
    accepted = data.draw(st.lists(st.integers(1, case["draft_tokens"]), min_size=1, max_size=6))
    before, answer = (tree.ask("drafts.draft_extend", case, accepted) for tree in (unpatched, patched))
    assert answer["next"] == before["next"]


@st.composite
def lives(draw: st.DrawFn) -> list[list[Any]]:
    """What becomes of a batch of three requests: steps, some of it finished, another one joined."""
    acts: list[list[Any]] = []
    rows = 3
    for _ in range(draw(st.integers(1, 12))):
        act = draw(st.sampled_from(["step", "filter", "merge"]))
        if act == "filter":
            kept = draw(
                st.lists(st.integers(0, rows - 1), min_size=1, max_size=rows, unique=True).map(sorted)
            )
            acts.append(["filter", kept])
            rows = len(kept)
        elif act == "merge" and rows < 4:
            joined = draw(st.integers(1, 4 - rows))
            acts.append(["merge", joined])
            rows += joined
        else:
            acts.append(["step", None])
    return acts


@examples(20)
@given(lives())
def test_a_step_finds_in_the_future_map_what_the_last_one_left(
    unpatched: DrivenTree, patched: DrivenTree, acts: list[list[Any]]
) -> None:
    before, answer = (tree.ask("drafts.future_map", acts) for tree in (unpatched, patched))
    assert [step["values"] for step in answer] == [step["values"] for step in before]
    assert {step["gathers"] for step in before} <= {5}
    # Only a batch that stayed as it was lies in neighbouring rows.
    undisturbed = [at == 0 or acts[at - 1][0] == "step" for at, act in enumerate(acts) if act[0] == "step"]
    assert [step["gathers"] for step in answer] == [0 if same else 5 for same in undisturbed]


def test_the_future_map_is_gathered_from_as_before_when_that_is_switched_off(patched: DrivenTree) -> None:
    (step,) = patched.ask("drafts.future_map", [["step", None]], "pk-small-launches")
    assert step["gathers"] == 5
