"""Write what the verify of drafted chains reads, in one launch.

Imported only where Triton is needed: by ``chain_inputs``, for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    from .step_buffers import ChainDrafts, ChainInputs, ChainMask


@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["mask_size"], do_not_specialize_on_alignment=["drafts", "slots"]
)
def _fill(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    lens,
    rows,
    bonus,
    drafts,
    slots,
    tokens,
    positions,
    graph_tokens,
    graph_positions,
    graph_slots,
    graph_rows,
    mask,
    mask_starts,
    mask_lens,
    mask_size,
    MASKED: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    request = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    live = at < TOKENS
    place = request * TOKENS + at
    drafted = tl.load(drafts + place - request - 1, mask=live & (at > 0), other=0)
    token = tl.where(at == 0, tl.load(bonus + request), drafted)
    position = tl.load(lens + request) + at
    tl.store(tokens + place, token, mask=live)
    tl.store(graph_tokens + place, token, mask=live)
    tl.store(positions + place, position, mask=live)
    tl.store(graph_positions + place, position, mask=live)
    tl.store(graph_slots + place, tl.load(slots + place, mask=live, other=0), mask=live)
    tl.store(graph_rows + request, tl.load(rows + request))
    if MASKED:
        before = tl.load(mask_lens + request).to(tl.int64)
        row = at[:, None]
        column = at[None, :]
        where = tl.load(mask_starts + request) + row * (before + TOKENS) + before + column
        inside = (row < TOKENS) & (column < TOKENS) & (where < mask_size)
        tl.store(mask + where, tl.where(column <= row, 1, 0).to(tl.uint8), mask=inside)


def fill_chains_by_kernel(drafted: ChainDrafts, inputs: ChainInputs, mask: ChainMask | None) -> None:
    """Implement ``chain_inputs.fill_chains`` in one launch."""
    requests, tokens = drafted.lens.shape[0], drafted.drafts.shape[1] + 1
    # Without a mask these are not read.
    written = (drafted.lens, drafted.lens, drafted.lens) if mask is None else mask
    _fill[(requests,)](
        *drafted,
        *inputs,
        *written,
        written[0].numel(),
        mask is not None,
        tokens,
        triton.next_power_of_2(tokens),
        num_warps=1,
    )
