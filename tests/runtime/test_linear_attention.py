from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.api_1 import replay_states

ORDER = torch.tensor([4, 9, 2, 7, 5, 0], dtype=torch.int32)
VERIFY = SimpleNamespace(is_target_verify=lambda: True)
DECODE = SimpleNamespace(is_target_verify=lambda: False)


class HybridReqToTokenPool:
    def __init__(self, mapping: torch.Tensor) -> None:
        self.req_index_to_mamba_index_mapping = mapping


def backend(pool: object) -> Any:
    states = [torch.full((size,), -1, dtype=torch.int32) for size in (1, 2, 3)]
    return SimpleNamespace(req_to_token_pool=pool, state_indices_list=states)


def rows(*found: int) -> torch.Tensor:
    return torch.tensor(found)


def test_a_replay_looks_states_up_once_the_offsets_of_its_queries_are_there() -> None:
    made: Any = backend(HybridReqToTokenPool(ORDER))
    assert not replay_states(made, 2, rows(1, 3), 0, VERIFY)
    assert replay_states(made, 2, rows(1, 3), 0, VERIFY)
    assert made.state_indices_list[1].tolist() == [9, 7]
    assert replay_states(made, 2, rows(5, 0), 0, VERIFY)
    assert made.state_indices_list[1].tolist() == [0, 4]
    assert made.state_indices_list[2].tolist() == [-1, -1, -1]


@pytest.mark.parametrize("padding", [1, torch.tensor(1), torch.tensor(0)])
def test_padding_writes_the_offsets_anew_and_so_does_the_replay_behind_it(
    padding: int | torch.Tensor,
) -> None:
    made: Any = backend(HybridReqToTokenPool(ORDER))
    replay_states(made, 2, rows(1, 3), 0, VERIFY)
    assert not replay_states(made, 2, rows(1, 3), padding, VERIFY)
    assert not replay_states(made, 2, rows(1, 3), 0, VERIFY)
    assert replay_states(made, 2, rows(1, 3), 0, VERIFY)


def test_another_mode_writes_other_offsets() -> None:
    made: Any = backend(HybridReqToTokenPool(ORDER))
    for mode in (VERIFY, DECODE, VERIFY):
        assert not replay_states(made, 3, rows(1, 3, 2), 0, mode)
        assert replay_states(made, 3, rows(1, 3, 2), 0, mode)


class Descendant(HybridReqToTokenPool):
    """A fork's own variant of the pool."""


@pytest.mark.parametrize("pool", [Descendant(ORDER), HybridReqToTokenPool(ORDER.long()), SimpleNamespace()])
def test_a_pool_that_is_not_the_trees_own_is_called_itself(pool: object) -> None:
    made: Any = backend(pool)
    for _ in range(2):
        assert not replay_states(made, 2, rows(1, 3), 0, VERIFY)


def test_with_the_patch_disabled_the_pool_is_called_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", "pk-linear-launches")
    made: Any = backend(HybridReqToTokenPool(ORDER))
    for _ in range(2):
        assert not replay_states(made, 2, rows(1, 3), 0, VERIFY)
