from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.runtime.stops import length_at_stop, mark_accepted, meets_stop, tail_of_step

if TYPE_CHECKING:
    from collections.abc import Sequence

STOPS = ("ab", "b", "bba")
LONGEST = max(map(len, STOPS))


class Characters:
    """A tokenizer whose tokens are characters."""

    @staticmethod
    def decode(token_ids: Sequence[int]) -> str:
        return "".join(map(chr, token_ids))


def request_of(text: str, accepted: int) -> SimpleNamespace:
    """A request that has this text, its last characters in one step."""
    params = SimpleNamespace(
        stop_str_max_len=LONGEST, stop_regex_max_len=0, stop_strs=list(STOPS), stop_regex_strs=[]
    )
    request = SimpleNamespace(
        output_ids=[*map(ord, text)], sampling_params=params, tokenizer=Characters(), vocab_size=0x110000
    )
    mark_accepted(request, accepted)
    return request


@given(st.text("abc", min_size=1, max_size=24), st.sampled_from(STOPS), st.integers(1, 24))
def test_an_answer_ends_where_one_that_comes_token_by_token_ends(text: str, stop: str, accepted: int) -> None:
    accepted = min(accepted, len(text))
    seen = len(text) - accepted
    # What was there before the step had no stop.
    text = text[:seen].replace("b", "c") + text[seen:]
    ends = [end for end in range(seen + 1, len(text) + 1) if stop in text[:end]]
    expected = ends[0] if ends else None
    request = request_of(text, accepted)
    assert length_at_stop(request, text=stop) == expected
    assert length_at_stop(request, regex=re.escape(stop)) == expected
    assert (stop in tail_of_step(request, text[-LONGEST - 1 :])) == (expected is not None)


@pytest.mark.parametrize(("accepted", "length"), [(1, None), (2, None), (3, 4)])
def test_a_regex_that_asks_for_the_end_matches_at_the_token_that_was_it(
    accepted: int, length: int | None
) -> None:
    assert length_at_stop(request_of("ccabcc", accepted), regex="ab$") == length


def test_a_step_that_accepts_no_token_ends_nothing() -> None:
    assert length_at_stop(request_of("ab", 0), text="ab") is None


def test_a_request_without_stops_is_not_decoded() -> None:
    request = request_of("ab", 2)
    request.sampling_params.stop_strs = []
    assert tail_of_step(request, "") == ""


def test_a_stop_before_tokens_that_decode_to_nothing_is_found() -> None:
    request = request_of("cab" + "\0" * (LONGEST + 1), LONGEST + 3)
    request.tokenizer = SimpleNamespace(decode=lambda ids: Characters.decode(ids).replace("\0", ""))
    assert "ab" in tail_of_step(request, "")


@pytest.mark.parametrize(
    ("text", "tokens", "end", "met"),
    [("ccab", 1, 4, True), ("cabc", 2, 4, True), ("cabc", 2, 2, False), ("cccc", 4, 4, False)],
)
def test_a_stop_of_either_kind_is_found_within_the_step_and_the_answer(
    text: str, tokens: int, end: int, *, met: bool
) -> None:
    request = request_of(text, 1)
    request.finished_len = end
    for strings, regexes in ((["ab"], []), ([], ["ab"])):
        request.sampling_params.stop_strs, request.sampling_params.stop_regex_strs = strings, regexes
        assert meets_stop(request, tokens) is met


@pytest.mark.parametrize("token", [-1, 0x110000])
def test_a_token_that_the_scheduler_is_about_to_replace_is_not_decoded(token: int) -> None:
    request = request_of("cab", 2)
    request.finished_len = 3
    vars(request.sampling_params).update(stop_strs=["a"], stop_regex_strs=[])
    assert meets_stop(request, 2)
    request.output_ids[-1] = token
    assert not meets_stop(request, 2)
