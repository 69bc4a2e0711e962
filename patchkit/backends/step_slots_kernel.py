"""Look up the slots that a step writes ahead, in one launch.

Imported only where Triton is needed: ``step_slots`` does so for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

    from .step_buffers import AheadSlots


# The number of requests differs from step to step, and none may compile a variant.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["requests"], do_not_specialize_on_alignment=["lens", "rows"]
)
def _look_up(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    lens,
    rows,
    req_to_token,
    ahead,
    requests,
    slots_per_request,
    STEPS: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    request = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    length = tl.load(lens + request).to(tl.int64)
    # A pool for many long requests has more slots than 32 bits can count.
    first = req_to_token + tl.load(rows + request).to(tl.int64) * slots_per_request + length
    slot = tl.load(first + at, mask=(at < STEPS) | (at < TOKENS), other=0).to(tl.int64)
    # Padding has no length: its tokens go to slot 0, whatever a row of the pool has.
    slot = tl.where(length > 0, slot, 0)
    tl.store(ahead + request * STEPS + at, slot, mask=at < STEPS)
    tl.store(ahead + requests * STEPS + request * TOKENS + at, slot, mask=at < TOKENS)
    tl.store(ahead + requests * (STEPS + TOKENS) + request, length)


def look_up_by_kernel(  # noqa: PLR0917
    lens: torch.Tensor,
    rows: torch.Tensor,
    req_to_token: torch.Tensor,
    steps: int,
    tokens: int,
    ahead: AheadSlots,
) -> None:
    """Do what ``step_slots.slots_ahead`` promises, in one launch."""
    requests = lens.shape[0]
    _look_up[(requests,)](
        lens,
        rows,
        req_to_token,
        ahead.buffer,
        requests,
        req_to_token.shape[1],
        steps,
        tokens,
        triton.next_power_of_2(max(steps, tokens)),
        num_warps=1,
    )
