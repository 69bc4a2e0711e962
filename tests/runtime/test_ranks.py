"""Ranks of a ROCm server take the first one's decision over, those of other devices send nothing."""

from __future__ import annotations

import pytest
import torch

from patchkit.runtime.api_1 import decide_as_first_rank


class Ranks:
    def __init__(self, world_size: int) -> None:
        self.world_size = world_size

    def broadcast(self, input_: torch.Tensor, src: int) -> None:
        input_.fill_(src + 7)


@pytest.mark.parametrize(
    ("hip", "size", "decided"), [("6.4", 2, [7, 7]), ("6.4", 1, [1, 2]), (None, 2, [1, 2])]
)
def test_only_several_ranks_on_rocm_take_it_over(
    monkeypatch: pytest.MonkeyPatch, hip: str | None, size: int, decided: list[int]
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    tokens, count = torch.tensor([1]), torch.tensor([2])
    decide_as_first_rank(Ranks(size), tokens, count)
    assert [tokens.item(), count.item()] == decided
