"""Sampling parameters and penalties have the same values, and the host does not wait for counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.driven import trees
from support.driven.fixtures import without_and_with
from support.releases import REFERENCE
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

Case = tuple[list[dict[str, Any]], list[Any]]
VOCABULARY = 12
TOKENS = st.integers(0, VOCABULARY - 1)
SUCCESSOR = "0.5.14"


@pytest.fixture(scope="module", params=["0.5.11", "0.5.12.post1", "0.5.13.post1"])
def before_and_after(request: pytest.FixtureRequest, releases: Releases) -> tuple[DrivenTree, DrivenTree]:
    """Each release without and with the patches."""
    return without_and_with(releases, request.param, "28397", alone=True)


@pytest.fixture(scope="module")
def successor(releases: Releases) -> DrivenTree:
    """The first release that has upstream's own."""
    return trees.as_released(releases, SUCCESSOR)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Requests, each with some penalties or none, of which some end between steps."""
    numbers = {
        "temperature": st.sampled_from([0.5, 1.0]),
        "top_p": st.sampled_from([0.75, 1.0]),
        "top_k": st.integers(1, 5),
        "min_p": st.sampled_from([0.0, 0.25]),
        "min_new_tokens": st.integers(0, 4),
        "stop_token_ids": st.none() | st.sets(TOKENS, max_size=3),
        "frequency_penalty": st.sampled_from([0.0, 0.5, -1.5]),
        "presence_penalty": st.sampled_from([0.0, 0.25]),
        "repetition_penalty": st.sampled_from([1.0, 1.5]),
    }
    optional = {"sampling_seed": st.integers(0, 99)} if draw(st.booleans()) else {}
    requests = draw(
        st.lists(st.fixed_dictionaries({}, optional={**numbers, **optional}), min_size=1, max_size=4)
    )
    running, steps = len(requests), list[Any]()
    for _ in range(draw(st.integers(1, 5))):
        if running > 1 and draw(st.booleans()):
            keep = sorted(draw(st.sets(st.integers(0, running - 1), min_size=1, max_size=running)))
            running = len(keep)
            steps.append({"keep": keep})
        steps.append(draw(st.lists(TOKENS, min_size=running, max_size=running)))
    return requests, steps


WAITING_FOR_TOKENS: Case = ([{"min_new_tokens": 2}, {}], [[3, 4], [5, 6], [7, 8]])
COUNTED: Case = ([{"frequency_penalty": 0.5}], [[3], [3]])
PLAIN: Case = ([{}], [[3]])


@examples(15)
@given(cases())
@example(WAITING_FOR_TOKENS)
def test_parameters_and_penalties_have_the_values_that_they_had(
    before_and_after: tuple[DrivenTree, DrivenTree], successor: DrivenTree, case: Case
) -> None:
    was, result, expected = (
        tree.ask("penalties.session", *case, VOCABULARY) for tree in (*before_and_after, successor)
    )
    assert result["made"] == was["made"] == expected["made"]
    for name in ("added", "scaled"):
        found, unpatched, later = ([step[name] for step in each["steps"]] for each in (result, was, expected))
        assert found == unpatched == later


@pytest.mark.parametrize("case", [WAITING_FOR_TOKENS, COUNTED], ids=["min_new_tokens", "frequency_penalty"])
def test_no_step_with_a_penalty_waits(before_and_after: tuple[DrivenTree, DrivenTree], case: Case) -> None:
    was, result = (tree.ask("penalties.session", *case, VOCABULARY)["steps"] for tree in before_and_after)
    selections = ["selection"] * 3 * ("min_new_tokens" in case[0][0])
    for before, after in zip(was, result, strict=True):
        # Those of the allocation are 26128's.
        assert before["waits in the preparation"] == ["copy", *after["waits in the preparation"]]
        assert before["waits of the sums"] == selections
        assert not after["waits of the sums"]


def test_with_the_mirror_freed_nothing_in_the_preparation_waits(releases: Releases) -> None:
    _, freed = without_and_with(releases, REFERENCE, "28397", "26128", alone=True)
    steps = freed.ask("penalties.session", *COUNTED, VOCABULARY)["steps"]
    assert [step["waits in the preparation"] for step in steps] == [[], []]
