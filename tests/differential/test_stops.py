"""An answer ends where the first of its stops is, wherever in a step of several tokens that lies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.driven.fixtures import without_and_with, without_and_with_each

if TYPE_CHECKING:
    from support.driven.trees import DrivenTree
    from support.releases import Releases

BEFORE = ("0.5.11", "0.5.12.post1", "0.5.13.post1")
EOS = 2
# Tokens 10, 11, 12, …
PIECES = ["one ", "two ", "EN", "D five", "six ", "seven ", "eight ", "nine "]
STOP = {"stop": ["END"]}
REGEX = {"stop_regex": ["E.?D"]}


before_and_after = without_and_with_each("25980", BEFORE)


@pytest.mark.parametrize("stop", [STOP, REGEX], ids=["string", "regex"])
def test_tokens_that_a_step_accepted_behind_a_stop_are_no_part_of_the_answer(
    before_and_after: tuple[DrivenTree, DrivenTree], stop: dict[str, Any]
) -> None:
    before, after = before_and_after
    steps = [[10], [11, 12, 13, 14]]
    assert before.ask("stops.finish", PIECES, steps, **stop)["tokens"] == [10, 11, 12, 13, 14]
    result = after.ask("stops.finish", PIECES, steps, **stop)
    assert (result["tokens"], result["reason"]["type"]) == ([10, 11, 12, 13], "stop")


@pytest.mark.parametrize("stop", [STOP, REGEX], ids=["string", "regex"])
def test_a_stop_far_ahead_of_a_steps_last_token_ends_the_request_in_that_step(
    before_and_after: tuple[DrivenTree, DrivenTree], stop: dict[str, Any]
) -> None:
    before, after = before_and_after
    steps = [[10, 12, 13, *[15] * 12], [16], [17]]
    assert before.ask("stops.finish", PIECES, steps, **stop)["reason"] is None
    result = after.ask("stops.finish", PIECES, steps, **stop)
    assert (result["tokens"], result["steps"]) == ([10, 12, 13], 1)


@pytest.mark.parametrize("stop", [STOP, REGEX], ids=["string", "regex"])
def test_a_stop_string_goes_before_a_stop_token_of_the_same_step(
    before_and_after: tuple[DrivenTree, DrivenTree], stop: dict[str, Any]
) -> None:
    before, after = before_and_after
    steps = [[10], [12, 13, 14, EOS]]
    assert before.ask("stops.finish", PIECES, steps, **stop)["tokens"] == [10, 12, 13, 14, EOS]
    assert after.ask("stops.finish", PIECES, steps, **stop)["tokens"] == [10, 12, 13]


@pytest.mark.parametrize("stop", [STOP, REGEX, {}], ids=["string", "regex", "none"])
def test_a_stop_token_without_a_stop_string_ends_the_answer_where_it_did(
    before_and_after: tuple[DrivenTree, DrivenTree], stop: dict[str, Any]
) -> None:
    before, after = before_and_after
    steps = [[10], [11, EOS, 12, 13]]
    result = after.ask("stops.finish", PIECES, steps, **stop)
    assert result == before.ask("stops.finish", PIECES, steps, **stop)
    assert (result["tokens"], result["reason"]["matched"]) == ([10, 11, EOS], EOS)


def test_a_regex_that_matches_only_at_an_earlier_token_of_the_step_ends_the_request_there(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    steps = [[10, 11, 14], [15]]
    assert before.ask("stops.finish", PIECES, steps, stop_regex=["two $"])["reason"] is None
    assert after.ask("stops.finish", PIECES, steps, stop_regex=["two $"])["tokens"] == [10, 11]


@pytest.mark.parametrize("stop", [STOP, REGEX], ids=["string", "regex"])
def test_a_server_that_takes_one_token_at_a_time_ends_its_answers_where_it_did(
    before_and_after: tuple[DrivenTree, DrivenTree], stop: dict[str, Any]
) -> None:
    before, after = before_and_after
    steps = [[token] for token in (10, 12, 14, 12, 13, 15)]
    result = after.ask("stops.finish", PIECES, steps, **stop)
    assert result == before.ask("stops.finish", PIECES, steps, **stop)
    assert result["tokens"] == [10, 12, 14, 12, 13]


def test_the_text_of_an_answer_that_keeps_its_stop_ends_with_it(
    before_and_after: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = before_and_after
    text = "one END five"
    assert before.ask("stops.trimmed", text, "END", untrimmed=True) == text
    assert after.ask("stops.trimmed", text, "END", untrimmed=True) == "one END"


@pytest.mark.parametrize(
    ("output", "matched", "untrimmed", "left"),
    [
        ("one END five", "END", False, "one "),
        ("one", "END", False, "one"),
        ("one", "END", True, "one"),
        ([10, EOS], EOS, False, [10]),
        ([10, EOS], EOS, True, [10, EOS]),
    ],
)
def test_what_else_the_detokenizer_takes_off_is_as_it_was(
    before_and_after: tuple[DrivenTree, DrivenTree],
    output: Any, matched: Any, untrimmed: bool, left: Any,
) -> None:  # fmt: skip
    for tree in before_and_after:
        assert tree.ask("stops.trimmed", output, matched, untrimmed=untrimmed) == left


# ---- a grammar that ends in the same step --------------------------------------------------------------------

GRAMMAR_AT_END = {"grammar": EOS, "stop_token_ids": [12]}


ended_by_grammar = without_and_with_each("31738", ("0.5.11", "0.5.12.post1", "0.5.14", "0.5.16"))


def test_a_stop_token_ahead_of_the_token_that_ends_the_grammar_ends_the_answer(
    ended_by_grammar: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = ended_by_grammar
    steps = [[10], [11, 12, 13, EOS]]
    result = before.ask("stops.finish", PIECES, steps, **GRAMMAR_AT_END)
    assert (result["tokens"], result["reason"]["matched"]) == ([10, 11, 12, 13, EOS], EOS)
    result = after.ask("stops.finish", PIECES, steps, **GRAMMAR_AT_END)
    assert (result["tokens"], result["reason"]["matched"]) == ([10, 11, 12], 12)


@pytest.mark.parametrize(
    ("step", "grammar"),
    [([11, 13], 13), ([11, EOS], EOS), ([11, 13], None), ([12, 11], None)],
    ids=["no-stop", "both", "neither", "no-grammar"],
)
def test_a_grammar_whose_end_no_stop_comes_before_ends_the_answer_as_it_did(
    ended_by_grammar: tuple[DrivenTree, DrivenTree], step: list[int], grammar: int | None
) -> None:
    before, after = ended_by_grammar
    options = {"grammar": grammar, "stop_token_ids": [12]}
    result = after.ask("stops.finish", PIECES, [[10], step], **options)
    assert result == before.ask("stops.finish", PIECES, [[10], step], **options)


def test_a_constrained_answer_at_its_limit_ends_by_length_as_it_did(
    ended_by_grammar: tuple[DrivenTree, DrivenTree],
) -> None:
    before, after = ended_by_grammar
    options = GRAMMAR_AT_END | {"max_new_tokens": 2}
    result = after.ask("stops.finish", PIECES, [[10], [11, 13, EOS]], **options)
    assert result == before.ask("stops.finish", PIECES, [[10], [11, 13, EOS]], **options)
    assert (result["tokens"], result["reason"]["type"]) == ([10, 11], "length")


# ---- a limit that is reached in the same step -------------------------------------------------------------------


@pytest.fixture(scope="module", params=[("0.5.11", "31738"), ("0.5.14",), ("0.5.17",)])
def limited(request: pytest.FixtureRequest, releases: Releases) -> tuple[DrivenTree, DrivenTree]:
    """A release as it is, and with the patch, also beside another that changes the same method."""
    version, *beside = request.param
    return without_and_with(releases, version, "33758", *beside)


@pytest.mark.parametrize(
    ("stop", "step", "expected"),
    [
        (STOP, [11, 12, 13, 14, 15], [10, 11, 12, 13]),
        (REGEX, [11, 12, 13, 14, 15], [10, 11, 12, 13]),
        ({}, [11, EOS, 12, 13, 14], [10, 11, EOS]),
        # The stop string is behind the limit, the stop token is not.
        (STOP, [11, EOS, 15, 12, 13], [10, 11, EOS]),
        ({"stop": ["END", "two"]}, [11, 14, 15, 12, 13], [10, 11]),
        ({"stop_regex": ["E.?D", "t.o"]}, [11, 14, 15, 12, 13], [10, 11]),
        (STOP, [EOS, 12, 13, 14], [10, EOS]),
        # The scheduler replaces a token of no text only if the answer has it.
        (STOP | {"vocabulary": 30}, [12, 13, 14, 14, 99], [10, 12, 13]),
    ],
    ids=["string", "regex", "token", "both", "strings", "regexes", "token-first", "invalid-beyond"],
)
def test_a_stop_within_the_limit_ends_the_answer_in_a_step_that_goes_beyond_it(
    limited: tuple[DrivenTree, DrivenTree], stop: dict[str, Any], step: list[int], expected: list[int]
) -> None:
    before, after = limited
    options = stop | {"max_new_tokens": 4}
    result = before.ask("stops.finish", PIECES, [[10], step], **options)
    assert (len(result["tokens"]), result["reason"]["type"]) == (4, "length")
    result = after.ask("stops.finish", PIECES, [[10], step], **options)
    assert (result["tokens"], result["reason"]["type"]) == (expected, "stop")


@pytest.mark.parametrize(
    ("options", "step"),
    [
        (STOP, [10, 11, 14, 12, 13]),
        (STOP, [10, 11, 14, 15, EOS]),
        ({"stop_token_ids": [5], "vocabulary": 6}, [5, 11, 5]),
        ({"vocabulary": None}, [10, 11, 14]),
        (GRAMMAR_AT_END, [10, 11, 13, EOS]),
        ({}, [10, 11, 13]),
    ],
    ids=["string-beyond", "token-beyond", "outside-vocabulary", "no-vocabulary", "grammar", "none"],
)
def test_a_limit_that_no_stop_comes_before_ends_the_answer_as_it_did(
    limited: tuple[DrivenTree, DrivenTree], options: dict[str, Any], step: list[int]
) -> None:
    before, after = limited
    question = ("stops.finish", PIECES, [step])
    result = after.ask(*question, **options, max_new_tokens=3)
    assert result == before.ask(*question, **options, max_new_tokens=3)
    assert result["reason"]["type"] == "length"
