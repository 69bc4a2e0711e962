"""Look up tokens in one rank's shard of an embedding in one launch; tokens of other ranks give rows of zeros."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Shard(NamedTuple):
    """A rank's rows of an embedding: those of its tokens, padding, and those of its tokens added to the vocabulary.

    ``weight`` [rows, hidden] has adjacent elements in each row. Tokens from ``first`` to ``end`` have its first rows,
    and tokens from ``added_first`` to ``added_end`` those after ``padding`` more.
    """

    weight: torch.Tensor
    first: int
    end: int
    padding: int
    added_first: int
    added_end: int

    @property
    def added_row(self) -> int:
        """The row of the first token that was added to the vocabulary."""
        return self.end - self.first + self.padding


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
