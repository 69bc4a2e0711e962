"""A step finds what the step before left, whichever way it came: through the future map's rows, or as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven.fixtures import without_and_with_each
from support.sweeps import examples

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree

Acts = list[list[Any]]
MOST = 4

before_and_after = without_and_with_each(
    "pk-step-relay", ["0.5.11", "0.5.12.post1", "0.5.13", "0.5.14"], alone=True
)
captured_before_and_after = without_and_with_each("pk-step-relay", ["0.5.16", "0.5.18"])
# Their prefills take decoding requests along.
mixing_before_and_after = without_and_with_each("pk-step-relay", ["0.5.19", "0.5.23"])


@st.composite
def lives(draw: st.DrawFn) -> Acts:
    """What becomes of a batch of three requests: steps, some finish, others join or arrive, and prefills between."""
    acts: Acts = []
    rows = 3
    for _ in range(draw(st.integers(1, 12))):
        act = draw(st.sampled_from(["step", "step", "filter", "merge", "arrive", "prefill"]))
        if act == "filter":
            some = st.lists(st.integers(0, rows - 1), min_size=1, max_size=rows, unique=True)
            kept = draw(some.map(sorted))
            acts.append([act, kept])
            rows = len(kept)
        elif act in {"merge", "arrive"} and rows < MOST:
            joined = draw(st.integers(1, MOST - rows))
            acts.append([act, joined])
            rows += joined
        elif act == "prefill":
            acts.append([act, draw(st.integers(1, 3))])
        else:
            acts.append(["step", None])
    return acts


@examples(20)
@given(st.lists(lives(), min_size=1, max_size=4))
def test_a_step_finds_what_the_last_one_left(
    before_and_after: tuple[DrivenTree, DrivenTree], drawn: list[Acts]
) -> None:
    before, after = before_and_after
    expected = before.ask_many("relays.steps", [(acts,) for acts in drawn])
    results = after.ask_many("relays.steps", [(acts,) for acts in drawn])
    assert [result["found"] for result in results] == [result["found"] for result in expected]


@pytest.mark.parametrize("gone", [[0, 1, 2], [0, 2], [1]])
def test_requests_that_arrive_at_a_decode_server_take_no_unfinished_results_along(
    before_and_after: tuple[DrivenTree, DrivenTree], gone: list[int]
) -> None:
    # They are made on the scheduler's stream, while the forward's results are not there yet.
    before, after = before_and_after
    acts = [["step", None], ["step", None], ["filter", gone], ["arrive", 1], ["step", None], ["step", None]]
    assert after.ask("relays.steps", acts)["found"] == before.ask("relays.steps", acts)["found"]


def test_a_batch_that_stays_as_it_is_moves_no_row(before_and_after: tuple[DrivenTree, DrivenTree]) -> None:
    before, after = before_and_after
    acts = [["step", None]] * 4
    moved = after.ask("relays.steps", acts)["moved"]
    # The first step reads what the prefill stored.
    assert moved[1:] == [[]] * 3
    assert all(len(each) > 2 for each in (moved[0], *before.ask("relays.steps", acts)["moved"]))


def test_a_batch_that_changed_reads_rows_that_are_stored_first(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    _, after = before_and_after
    acts = [["step", None], ["step", None], ["filter", [0, 2]], ["step", None], ["step", None]]
    moved = after.ask("relays.steps", acts)["moved"]
    assert moved[1] == moved[3] == []
    assert len(moved[2]) > 2


def test_switched_off_every_step_goes_through_the_map(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    acts = [["step", None], ["step", None], ["merge", 1], ["step", None]]
    assert after.ask("relays.steps", acts, "pk-step-relay") == before.ask("relays.steps", acts)


def test_a_forks_own_map_reads_rows_that_are_stored(before_and_after: tuple[DrivenTree, DrivenTree]) -> None:
    before, after = before_and_after
    acts = [["step", None]] * 3
    found = before.ask("relays.steps", acts)["found"]
    for tree in (before, after):
        assert tree.ask("relays.steps", acts, fork=True)["found"] == found


def test_lengths_in_the_buffer_of_a_graph_are_read_before_the_next_step_overwrites_them(
    captured_before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = captured_before_and_after
    for algorithm in ("DSPARK", "DFLASH"):
        expected = [[10, 20], [13, 23], [16, 26], [19, 29]]
        assert before.ask("relays.captured_lens", algorithm, 4) == expected
        assert after.ask("relays.captured_lens", algorithm, 4) == expected


def test_a_request_that_decodes_beside_a_prefill_has_the_length_of_its_last_step(
    mixing_before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = mixing_before_and_after
    expected = {"lens": [5, 10, 8], "slots": [*[0] * 5, 3 * 32 + 9, 6 * 32 + 7], "prefixes": [0, 9, 7]}
    assert before.ask("mixed_tails.resolved", [3, 6], [9, 7]) == expected
    assert after.ask("mixed_tails.resolved", [3, 6], [9, 7]) == expected
