"""What a v1 verify of several branches leaves, whether one launch commits it or a row of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from support.driven.defaults import BRANCHES
from support.driven.fixtures import without_and_with_each
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Case = dict[str, Any]
PATCH = "pk-accepted-tokens"

before_and_after = without_and_with_each(PATCH, ["0.5.11", "0.5.12.post1"])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Batches whose trees are often right for a while, and some of whose requests end."""
    rows, depth = draw(st.integers(1, 4)), draw(st.integers(2, 4))

    def some(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rows, max_size=rows))

    return {
        "seed": draw(st.integers(0, 999)),
        "lens": some(1, 12),
        "limits": some(1, 30),
        "tokens": depth + draw(st.integers(0, 4)),
        "depth": depth,
        "vocabulary": draw(st.sampled_from([1, 2, 3])),
        "steps": draw(st.integers(1, 5)),
        "returns": draw(st.booleans()),
        "logprobs": draw(st.booleans()),
    }


def found(tree: DrivenTree, drawn: list[Case], disable: str = "") -> list[Any]:
    results = tree.ask_many("accepted_tokens.steps", [(case, disable) for case in drawn])
    return [[{**step, "operators": None} for step in steps] for steps in results]


@examples(8)
@given(st.lists(cases(), min_size=1, max_size=8))
def test_whatever_follows_from_a_verify_is_as_unpatched(
    before_and_after: tuple[DrivenTree, DrivenTree], drawn: list[Case]
) -> None:
    before, after = before_and_after
    expected = found(before, drawn)
    assert found(after, drawn) == expected
    assert found(after, drawn, PATCH) == expected


def test_a_step_in_which_no_request_ends_takes_few_operations(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = (tree.ask("accepted_tokens.steps", BRANCHES) for tree in before_and_after)
    for old, new in zip(before, after, strict=True):
        assert "full_like" in old["operators"]
        assert "full_like" not in new["operators"]


def test_a_step_in_which_a_request_ends_goes_the_way_that_it_went(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    case = BRANCHES | {"limits": [1, 99, 99], "steps": 1}
    before, after = (tree.ask("accepted_tokens.steps", case) for tree in before_and_after)
    assert "full_like" in after[0].pop("operators")
    assert before[0].pop("operators")
    assert after == before
