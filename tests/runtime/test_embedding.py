from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchkit.runtime.api_1 import embed_shard, embeds_at_once


class UnquantizedEmbeddingMethod:
    pass


def layer(**changed: Any) -> Any:
    """Return a rank's embedding of the tokens 4 to 8, of which no two rows are equal."""
    own = SimpleNamespace(
        org_vocab_start_index=4,
        org_vocab_end_index=8,
        num_org_vocab_padding=0,
        added_vocab_start_index=16,
        added_vocab_end_index=16,
    )
    weight = torch.arange(1.0, 13).view(4, 3)
    made = SimpleNamespace(
        tp_size=2, quant_method=UnquantizedEmbeddingMethod(), shard_indices=own, weight=weight
    )
    vars(made).update(changed)
    return made


TOKENS = torch.tensor([3, 4, 7, 8])
ROWS = [[0.0] * 3, [1.0, 2.0, 3.0], [10.0, 11.0, 12.0], [0.0] * 3]


def test_a_rank_looks_up_its_own_tokens() -> None:
    assert embeds_at_once(layer(), TOKENS)
    assert embed_shard(layer(), TOKENS).tolist() == ROWS


@pytest.mark.parametrize(
    "changed",
    [
        {"tp_size": 1},
        {"quant_method": object()},
        {"weight": torch.zeros(4)},
        {"weight": torch.zeros(4, 6)[:, ::2]},
        {"weight": torch.zeros(4, 3, dtype=torch.int8)},
        {"weight": torch.zeros(4, 3, device="meta")},
    ],
)
def test_other_embeddings_are_left_to_the_tree(changed: dict[str, Any]) -> None:
    assert not embeds_at_once(layer(**changed), TOKENS)


def test_other_tokens_are_left_to_the_tree() -> None:
    assert not embeds_at_once(layer(), TOKENS.to(torch.int16))


def test_switched_off_the_tree_looks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHKIT_DISABLE", "30948")
    assert not embeds_at_once(layer(), TOKENS)


def test_code_that_is_compiled_as_a_whole_has_the_trees_operations() -> None:
    of = layer()

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        return embed_shard(of, tokens) if embeds_at_once(of, tokens) else tokens + 1

    compiled = torch.compile(forward, fullgraph=True, backend="eager", dynamic=True)
    assert compiled(TOKENS).tolist() == (TOKENS + 1).tolist()
    assert forward(TOKENS).tolist() == ROWS
