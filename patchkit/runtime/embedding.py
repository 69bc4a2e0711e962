"""Look up tokens in a tensor-parallel rank's shard of the embedding in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..backends.shard import embed
from ..backends.step_buffers import Shard
from .switches import disabled

if TYPE_CHECKING:
    from .shapes import Embedding

_TOKENS = (torch.int32, torch.int64)
_WEIGHTS = (torch.float16, torch.bfloat16, torch.float32)


def embeds_at_once(layer: Embedding, tokens: torch.Tensor) -> bool:
    """Return whether `embed_shard` looks up ``tokens`` of ``layer``; else the tree does.

    Not in code that is being compiled, where the tree's operations are fused, or with quantised weights. Source: pull
    request 30948.
    """
    if torch.compiler.is_compiling() or layer.tp_size == 1 or disabled("30948"):
        return False
    weight = layer.weight
    return (
        type(layer.quant_method).__name__ == "UnquantizedEmbeddingMethod"
        and tokens.device == weight.device
        and tokens.device.type in {"cpu", "cuda"}
        and torch.version.hip is None
        and tokens.dtype in _TOKENS
        and weight.dtype in _WEIGHTS
        and weight.dim() == 2
        and weight.stride(1) == 1
    )


def embed_shard(layer: Embedding, tokens: torch.Tensor) -> torch.Tensor:
    """Return the rows of ``tokens`` on this rank, zeros for other ranks' tokens, [*tokens, hidden], on the device.

    Source: pull request 30948.
    """
    own = layer.shard_indices
    return embed(
        Shard(
            layer.weight,
            own.org_vocab_start_index,
            own.org_vocab_end_index,
            own.num_org_vocab_padding,
            own.added_vocab_start_index,
            own.added_vocab_end_index,
        ),
        tokens,
    )
