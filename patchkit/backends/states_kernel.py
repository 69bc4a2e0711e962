"""Move the accepted states of every layer in one launch.

Imported only where Triton is needed: by ``states``, for tensors on a GPU.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    from .step_buffers import AcceptedTokens, States

_BLOCK = 1024


# Sizes and strides are constant for a server; values that vary between steps must not compile variants.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize_on_alignment=["lens", "accepted", "places", "slots", "tracked"]
)
def _commit(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    into,
    drafted,
    windows_into,
    windows,
    lens,
    accepted,
    places,
    slots,
    tracked,
    DEPTH: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    INTERVAL: tl.constexpr,  # noqa: N803
    LAYERS: tl.constexpr,  # noqa: N803
    SLOTS: tl.constexpr,  # noqa: N803
    REQUESTS: tl.constexpr,  # noqa: N803
    STEPS: tl.constexpr,  # noqa: N803
    STATE: tl.constexpr,  # noqa: N803
    WINDOW: tl.constexpr,  # noqa: N803
    COLUMNS: tl.constexpr,  # noqa: N803
    BY_LAYER: tl.constexpr,  # noqa: N803
    BY_REQUEST: tl.constexpr,  # noqa: N803
    BY_STEP: tl.constexpr,  # noqa: N803
    BY_ROW: tl.constexpr,  # noqa: N803
    BY_COLUMN: tl.constexpr,  # noqa: N803
    BLOCKS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    request = tl.program_id(0)
    layer = (tl.program_id(1) % LAYERS).to(tl.int64)
    count = tl.load(accepted + request)
    slot = tl.load(slots + request).to(tl.int64)
    step = tl.load(places + request * DEPTH + count - 1, mask=count > 0, other=-1) - request * TOKENS
    # Nested, so that the constant condition decides at compile time whether the rest is compiled.
    if tracked is not None:  # noqa: SIM102
        if tl.program_id(1) >= LAYERS:
            before = tl.load(lens + request)
            end = (before + count) // INTERVAL * INTERVAL
            crossed = end > before
            passed = tl.where(crossed, end - before - 1, 0)
            slot = tl.load(tracked + request).to(tl.int64)
            step = tl.load(places + request * DEPTH + passed) - request * TOKENS
            step = tl.where(crossed, step, -1)
    if (slot >= 0) & (slot < SLOTS) & (step >= 0) & (step < STEPS) & (request < REQUESTS):
        block = tl.program_id(2)
        source, target = layer * REQUESTS + request, layer * SLOTS + slot
        if block < BLOCKS:
            at = block * BLOCK + tl.arange(0, BLOCK)
            state = tl.load(drafted + (source * STEPS + step) * STATE + at, mask=at < STATE, other=0)
            tl.store(into + target * STATE + at, state, mask=at < STATE)
        else:
            at = (block - BLOCKS) * BLOCK + tl.arange(0, BLOCK)
            first = layer * BY_LAYER + request.to(tl.int64) * BY_REQUEST + step.to(tl.int64) * BY_STEP
            place = first + at // COLUMNS * BY_ROW + at % COLUMNS * BY_COLUMN
            column = tl.load(windows + place, mask=at < WINDOW, other=0)
            tl.store(windows_into + target * WINDOW + at, column, mask=at < WINDOW)


def commit_by_kernel(states: States, accepted: AcceptedTokens) -> None:
    """Implement ``states.commit`` in one launch."""
    layers, slots = states.into.shape[:2]
    requests, steps = states.drafted.shape[1:3]
    window_rows, columns = states.windows_into.shape[2:]
    state, window = math.prod(states.into.shape[2:]), window_rows * columns
    blocks = -(-state // _BLOCK)
    kinds = 1 if accepted.tracked is None else 2
    _commit[(accepted.accepted.shape[0], layers * kinds, blocks + -(-window // _BLOCK))](
        states.into,
        states.drafted,
        states.windows_into,
        states.windows,
        accepted.lens,
        accepted.accepted,
        accepted.places,
        accepted.slots,
        accepted.tracked,
        accepted.places.shape[1],
        accepted.tokens,
        accepted.interval,
        layers,
        slots,
        requests,
        steps,
        state,
        window,
        columns,
        *states.windows.stride(),
        blocks,
        _BLOCK,
    )
