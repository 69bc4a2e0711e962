"""Look up tokens in a shard of an embedding in one launch.

Imported only where Triton is needed: by ``shard``, for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from .step_buffers import Shard

_BLOCK = 1024


# The shard is constant for a server; the tokens may be a part of a graph's buffer, and must not compile variants.
@triton.jit(do_not_specialize_on_alignment=["tokens"])  # type: ignore[untyped-decorator]
def _embed(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    tokens,
    weight,
    into,
    FIRST: tl.constexpr,  # noqa: N803
    END: tl.constexpr,  # noqa: N803
    ADDED_FIRST: tl.constexpr,  # noqa: N803
    ADDED_END: tl.constexpr,  # noqa: N803
    ADDED_ROW: tl.constexpr,  # noqa: N803
    HIDDEN: tl.constexpr,  # noqa: N803
    BY_ROW: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    place = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token = tl.load(tokens + place).to(tl.int64)
    base = (token >= FIRST) & (token < END)
    added = (token >= ADDED_FIRST) & (token < ADDED_END)
    row = tl.where(base, token - FIRST, token - ADDED_FIRST + ADDED_ROW)
    known = base | added
    # An address outside the weights may not even be computed.
    row = tl.where(known, row, 0)
    values = tl.load(weight + row * BY_ROW + at, mask=at < tl.where(known, HIDDEN, 0), other=0)
    tl.store(into + place * HIDDEN + at, values, mask=at < HIDDEN)


def embed_by_kernel(shard: Shard, tokens: torch.Tensor) -> torch.Tensor:
    """Implement ``shard.embed`` in one launch."""
    weight = shard.weight
    hidden = weight.shape[1]
    into = torch.empty((*tokens.shape, hidden), dtype=weight.dtype, device=weight.device)
    # A launch needs at least one program.
    if tokens.numel():
        block = min(_BLOCK, triton.next_power_of_2(hidden))
        _embed[(tokens.numel(), -(-hidden // block))](
            tokens.contiguous(),
            weight,
            into,
            shard.first,
            shard.end,
            shard.added_first,
            shard.added_end,
            shard.added_row,
            hidden,
            weight.stride(0),
            block,
        )
    return into
