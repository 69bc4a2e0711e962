"""A request is returned its own hidden states, one for each of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.driven.fixtures import without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

STRIDE = 4


before_and_after = without_and_with_each("28496", ["0.5.11", "0.5.12.post1", "0.5.13.post1"])


def test_a_request_gets_the_states_of_the_tokens_that_it_accepted(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    prefill = ["prefill"]
    assert before.ask("hidden_states.kept", [3, 1, 2], STRIDE) == [[prefill, [row]] for row in range(3)]
    assert after.ask("hidden_states.kept", [3, 1, 2], STRIDE) == [
        [prefill, [0], [1], [2]],
        [prefill, [STRIDE]],
        [prefill, [2 * STRIDE], [2 * STRIDE + 1]],
    ]


def test_a_decode_of_one_token_keeps_the_states_that_it_kept(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    result = after.ask("hidden_states.kept", None, 3)
    assert result == before.ask("hidden_states.kept", None, 3) == [[["prefill"], [row]] for row in range(3)]


def test_states_of_tokens_behind_the_end_are_not_returned(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    states = [["prefill"], [1], [2], [3]]
    assert before.ask("hidden_states.returned", states, ends_after=2) == states
    assert after.ask("hidden_states.returned", states, ends_after=2) == states[:2]
    assert after.ask("hidden_states.returned", states, ends_after=4) == states
