from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.api_1 import (
    chain_bonus_tokens,
    chain_extend_lens,
    chain_extended_lens,
    chain_positions,
    chain_prefix_lens,
    copy_outputs,
    correct_drafts,
    last_accepted,
    lens_after_verify,
    verify_chain,
    verify_outputs,
    wide_tokens,
    with_bonus,
)

CANDIDATES = torch.tensor([[5, 6, 7], [5, 8, 7]])
TARGETS = torch.tensor([[6, 7, 9], [6, 7, 9]])


def verified(lens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and accepted lengths of a verify of two chains: one is right, the other wrong at once."""
    tokens, _, drafts = verify_outputs(CANDIDATES, lens, [6], 3, 1)
    assert verify_chain(drafts, CANDIDATES, TARGETS)
    return tokens, with_bonus(drafts)


def forward(tokens: torch.Tensor, *, extends: bool = True) -> Any:
    mode = SimpleNamespace(is_draft_extend_v2=lambda: extends)
    return SimpleNamespace(forward_mode=mode, batch_size=2, input_ids=tokens, extend_num_tokens=6)


def test_what_follows_from_a_chain_is_what_the_operations_give() -> None:
    lens = torch.tensor([10, 20])
    tokens, accepted = verified(lens)
    bonus = chain_bonus_tokens(accepted)
    assert tokens.tolist() == [6, 7, 9, 6, 0, 0]
    assert accepted.tolist() == [3, 1]
    assert bonus is not None
    assert bonus.tolist() == [9, 6]
    assert correct_drafts(accepted).tolist() == (accepted - 1).tolist()
    assert lens_after_verify(lens, accepted).tolist() == (lens + accepted).tolist()
    assert last_accepted(accepted, 3).tolist() == [2, 3]
    assert wide_tokens(tokens, accepted).tolist() == tokens.tolist()


@pytest.mark.parametrize("wide", [False, True])
def test_a_draft_extend_of_the_tokens_has_its_lengths(wide: bool) -> None:
    lens = torch.tensor([10, 20])
    tokens, accepted = verified(lens)
    written = wide_tokens(tokens, accepted) if wide else tokens
    extends, prefixes = chain_extend_lens(written, lens, 3)
    assert (extends.dtype, extends.tolist()) == (torch.int32, [3, 3])
    assert (prefixes.dtype, prefixes.tolist()) == (torch.int32, [10, 20])
    assert chain_extended_lens(written, lens, 3).tolist() == [13, 23]
    before = chain_prefix_lens(written, torch.tensor([13, 23]), 3)
    assert (before.dtype, before.tolist()) == (torch.int32, [10, 20])
    assert chain_prefix_lens(written, torch.tensor([12, 22]), 2).tolist() == [10, 20]
    assert chain_prefix_lens(written.clone(), torch.tensor([13, 23]), 3).tolist() == [10, 20]
    counted = chain_positions(forward(written))
    assert counted is not None
    assert [value.tolist() for value in counted] == [[10, 11, 12, 20, 21, 22], [0, 3]]
    assert chain_positions(forward(written, extends=False)) is None
    # Another extend is counted by itself.
    assert chain_extended_lens(written, lens, 2).tolist() == [12, 22]
    assert chain_extend_lens(written.clone(), lens, 2)[0].tolist() == [2, 2]


def test_a_draft_extend_that_another_stream_prepares_is_counted_there() -> None:
    # The plan stream of 0.5.11 and 0.5.12 is not behind the verify.
    lens = torch.tensor([10, 20])
    tokens, accepted = verified(lens)
    for written in (tokens, wide_tokens(tokens, accepted)):
        here = chain_extend_lens(written, lens, 3)
        with torch.cpu.stream(torch.cpu.Stream()):
            there = chain_extend_lens(written, lens, 3)
            assert [each.tolist() for each in there] == [each.tolist() for each in here]
            assert not any(a.data_ptr() == b.data_ptr() for a, b in zip(here, there, strict=True))
            assert chain_extended_lens(written, lens, 3).tolist() == [13, 23]
            assert chain_positions(forward(written)) is None
        assert chain_positions(forward(written)) is not None


def test_other_lengths_and_rows_are_counted_by_themselves() -> None:
    _, accepted = verified(torch.tensor([10, 20]))
    assert lens_after_verify(torch.tensor([1, 2]), accepted).tolist() == [4, 3]
    assert last_accepted(accepted, 5).tolist() == [2, 5]
    copied = accepted.clone()
    assert chain_bonus_tokens(copied) is None
    assert correct_drafts(copied).tolist() == [2, 0]


def test_the_host_reads_tokens_and_lengths_by_one_copy() -> None:
    tokens, accepted = verified(torch.tensor([10, 20]))
    result: Any = SimpleNamespace(next_token_ids=tokens, accept_lens=accepted)
    assert copy_outputs(result)
    assert result.next_token_ids.tolist() == [6, 7, 9, 6, 0, 0]
    assert result.accept_lens.tolist() == [3, 1]
    # Those of another verify, and of a prefill, are copied by themselves.
    tokens, accepted = verified(torch.tensor([10, 20]))
    assert not copy_outputs(SimpleNamespace(next_token_ids=tokens.clone(), accept_lens=accepted))
    assert not copy_outputs(SimpleNamespace(next_token_ids=tokens, accept_lens=None))


def test_a_trees_own_copy_to_the_host_is_made_once() -> None:
    tokens, accepted = verified(torch.tensor([10, 20]))
    result: Any = SimpleNamespace(next_token_ids=tokens, accept_lens=accepted)
    copied: list[list[int]] = []

    def copy(values: torch.Tensor) -> torch.Tensor:
        copied.append(values.tolist())
        return values.clone()

    assert copy_outputs(result, copy)
    assert copied == [[6, 7, 9, 6, 0, 0, 3, 1]]
    assert (result.next_token_ids.tolist(), result.accept_lens.tolist()) == (copied[0][:6], [3, 1])


def test_a_draft_extend_that_starts_before_the_verified_tokens_has_lengths_of_its_own() -> None:
    lens = torch.tensor([10, 1])
    tokens, _ = verified(lens)
    extends, prefixes = chain_extend_lens(tokens, lens, 3, 2)
    assert (extends.tolist(), prefixes.tolist()) == ([3, 3], [8, 0])
    assert extends.dtype == prefixes.dtype == torch.int32


@pytest.mark.parametrize(
    ("topk", "width", "shape"), [(None, 3, [6]), (2, 3, [6]), (1, 2, [6]), (1, 3, [8]), (-1, 3, [6])]
)
def test_what_is_no_greedy_chain_has_room_as_the_trees_kernel_needs_it(
    topk: int | None, width: int, shape: list[int]
) -> None:
    # N-gram speculation has a top-k of -1, and moves its paths itself.
    paths = topk == -1
    tokens, index, drafts = verify_outputs(
        CANDIDATES, torch.tensor([10, 20]), shape, width, topk, paths=paths
    )
    assert tokens.tolist() == [0] * shape[0]
    assert index.tolist() == [[-1] * width] * 2
    assert not verify_chain(drafts, CANDIDATES, TARGETS)
    drafts.fill_(1)
    assert vars(drafts) == {}
    assert with_bonus(drafts).tolist() == [2, 2]


def test_nothing_of_a_step_waits_for_the_garbage_collector() -> None:
    gc.disable()
    try:
        # What is there already is of an older generation from now on.
        gc.collect(0)
        for _ in range(3):
            tokens, accepted = verified(torch.tensor([10, 20]))
            wide_tokens(tokens, accepted)
            del tokens, accepted
        assert not any(isinstance(each, torch.Tensor) for each in gc.get_objects(0))
    finally:
        gc.enable()
