from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.api_1 import draft_positions, draft_slots, is_filled, mark_filled, verify_slots

POOL = torch.arange(60, dtype=torch.int32).view(3, 20)


def batch() -> Any:
    return SimpleNamespace(seq_lens=torch.tensor([4, 9]), req_pool_indices=torch.tensor([2, 0]))


def test_a_verify_has_the_slots_that_its_draft_looked_up() -> None:
    made = batch()
    drafted = draft_slots(made, POOL, 1, 2, 3)
    assert drafted is not None
    assert drafted.tolist() == [44, 45, 9, 10]
    positions = draft_positions(made.seq_lens, 1)
    positions.add_(1)
    assert (positions.tolist(), made.seq_lens.tolist()) == ([5, 10], [4, 9])
    verified = verify_slots(made, 3)
    assert verified is not None
    assert verified.tolist() == [44, 45, 46, 9, 10, 11]
    # They are this step's alone.
    assert verify_slots(made, 3) is None


def test_a_verify_of_other_requests_or_tokens_looks_them_up_itself() -> None:
    for change in ({"req_pool_indices": torch.tensor([2, 0])}, {"seq_lens": torch.tensor([4, 9])}, {}):
        made = batch()
        draft_slots(made, POOL, 1, 2, 3)
        vars(made).update(change)
        assert verify_slots(made, 3 if change else 4) is None


def test_a_verify_on_another_stream_than_its_draft_looks_them_up_itself() -> None:
    made = batch()
    draft_slots(made, POOL, 1, 2, 3)
    with torch.cpu.stream(torch.cpu.Stream()):
        assert verify_slots(made, 3) is None


@pytest.mark.parametrize(("topk", "tokens"), [(2, 3), (1, None), (1, 0)])
def test_a_draft_that_is_no_chain_looks_its_slots_up_as_before(topk: int, tokens: int | None) -> None:
    made = batch()
    assert draft_slots(made, POOL, topk, 2, tokens) is None
    assert draft_positions(made.seq_lens, topk).tolist() == [each for each in (4, 9) for _ in range(topk)]


def test_what_was_filled_for_a_batch_is_filled_for_the_same_tensors_alone() -> None:
    forward: Any = SimpleNamespace(input_ids=torch.tensor([1, 2]), positions=torch.tensor([3, 4]))
    assert not is_filled(forward)
    mark_filled(forward)
    assert is_filled(forward)
    forward.positions = forward.positions.clone()
    assert not is_filled(forward)


def test_another_stream_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forward: Any = SimpleNamespace(input_ids=torch.tensor([1, 2]), positions=torch.tensor([3, 4]))
    streams = iter(["plan", "forward"])
    monkeypatch.setattr("patchkit.runtime.step_inputs.current_handle", lambda _: next(streams))
    mark_filled(forward)
    assert not is_filled(forward)


def test_switched_off_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", "pk-step-inputs")
    made = batch()
    forward: Any = SimpleNamespace(input_ids=torch.tensor([1, 2]), positions=torch.tensor([3, 4]))
    mark_filled(forward)
    assert draft_slots(made, POOL, 1, 2, 3) is None
    assert verify_slots(made, 3) is None
    assert not is_filled(forward)
