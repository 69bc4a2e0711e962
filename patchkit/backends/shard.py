"""Look up tokens in one rank's shard of an embedding in one launch; tokens of other ranks give rows of zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .step_buffers import Shard


def embed(shard: Shard, tokens: torch.Tensor) -> torch.Tensor:
    """Return the rows of ``tokens`` (int32 or int64, any shape), on a GPU in one launch. Any number is allowed."""
    if tokens.is_cuda:
        from .shard_kernel import embed_by_kernel

        return embed_by_kernel(shard, tokens)
    return embed_by_torch(shard, tokens)


def embed_by_torch(shard: Shard, tokens: torch.Tensor) -> torch.Tensor:
    """Implement ``embed`` by torch operations."""
    base = (tokens >= shard.first) & (tokens < shard.end)
    added = (tokens >= shard.added_first) & (tokens < shard.added_end)
    row = torch.where(base, tokens - shard.first, tokens - shard.added_first + shard.added_row)
    known = base | added
    rows = torch.nn.functional.embedding(torch.where(known, row, 0).long(), shard.weight)
    return rows.masked_fill_(~known[..., None], 0)
