from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from patchkit.runtime.hidden_states import hidden_states_of, hidden_states_to_end

STATES = torch.arange(12).view(12, 1)


@pytest.mark.parametrize(
    ("result", "stride"),
    [
        # A worker that chooses its steps as it goes has another number by now.
        (SimpleNamespace(speculative_num_draft_tokens=4), 3),
        (SimpleNamespace(speculative_num_draft_tokens=None), 4),
        (SimpleNamespace(), 4),
    ],
)
def test_rows_are_counted_in_draft_tokens_of_the_result_or_else_of_the_worker(
    result: SimpleNamespace, stride: int
) -> None:
    processor = SimpleNamespace(draft_worker=SimpleNamespace(speculative_num_draft_tokens=stride))
    assert hidden_states_of(STATES, 2, [5, 6], result, processor) == [[8], [9]]


def test_a_decode_has_one_row_for_a_request() -> None:
    nobody = SimpleNamespace()
    assert hidden_states_of(STATES, 2, 5, nobody, nobody) == [[2]]


@pytest.mark.parametrize(("end", "expected"), [(None, [1, 2, 3]), (2, [1, 2]), (0, [1])])
def test_an_answer_of_no_tokens_has_the_states_of_its_prompt(end: int | None, expected: list[int]) -> None:
    assert hidden_states_to_end(SimpleNamespace(hidden_states=[1, 2, 3], finished_len=end)) == expected
