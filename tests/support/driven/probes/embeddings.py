"""The rows that each tensor-parallel rank's part of an embedding has for tokens."""

from __future__ import annotations

import os
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers import vocab_parallel_embedding as embeddings
from sglang.srt.layers.quantization.unquant import UnquantizedEmbeddingMethod

from . import repeatable

_HIDDEN = 4
_MASK = getattr(
    embeddings.get_masked_input_and_mask, "_torchdynamo_orig_callable", embeddings.get_masked_input_and_mask
)


class _Quantized:
    """Looks up rows of weights that only it can read."""

    def embedding(self, layer: Any, tokens: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(tokens, layer.weight) / 2


def _layer(ranks: int, rank: int, base: int, added: int, *, quantized: bool) -> Any:
    kind = embeddings.VocabParallelEmbedding
    layer: Any = kind.__new__(kind)
    torch.nn.Module.__init__(layer)
    padded = embeddings.pad_vocab_size(base, 8)
    rows = embeddings.pad_vocab_size(padded + added, 8)
    layer.tp_size, layer.use_attn_tp_group, layer.num_embeddings = ranks, False, base + added
    layer.shard_indices = kind._get_indices(rows, padded, base + added, base, rank, ranks)
    layer.quant_method = _Quantized() if quantized else UnquantizedEmbeddingMethod()
    own = layer.shard_indices.num_elements_padded
    layer.weight = torch.nn.Parameter(
        torch.arange(1.0, own * _HIDDEN + 1).view(own, _HIDDEN) + 1000 * rank, requires_grad=False
    )
    return layer


@repeatable
def looked_up(
    tokens: list[int],
    ranks: int = 2,
    base: int = 20,
    added: int = 3,
    *,
    dtype: str = "int64",
    quantized: bool = False,
    scattered: bool = False,
    disable: str = "",
) -> dict[str, Any]:
    """Look up ``tokens`` on each rank of an embedding of ``base`` tokens and ``added`` further ones.

    Returns each rank's rows, and how many tokens each collective operation and each of the tree's masks had.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    reduced: list[int] = []

    def reduce(rows: torch.Tensor) -> torch.Tensor:
        reduced.append(rows.shape[0])
        return rows

    vars(embeddings).update(
        tensor_model_parallel_all_reduce=reduce,
        get_tp_group=lambda: None,
        is_allocation_symmetric=lambda: True,
        use_symmetric_memory=lambda *_, **__: nullcontext(),
        get_attn_tp_context=lambda: SimpleNamespace(input_scattered=scattered),
    )
    masked: list[int] = []

    def masking(given: torch.Tensor, *bounds: int) -> Any:
        masked.append(given.shape[0])
        return _MASK(given, *bounds)

    embeddings.get_masked_input_and_mask = masking
    rows = []
    for rank in range(ranks):
        layer = _layer(ranks, rank, base, added, quantized=quantized)
        rows.append(layer(torch.tensor(tokens, dtype=getattr(torch, dtype))).tolist())
    return {"rows": rows, "reduced": reduced, "masked": masked}
