"""Compare drafted chains with the target's tokens, and write all derived values, in one launch.

Imported only where Triton is needed: by ``chain``, for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    from .step_buffers import AcceptedPaths, DraftedChains, PathMoves, VerifiedTrees, VerifyBuffers

_BATCH_BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def _derive(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    narrow,
    wide,
    requests,
    request,
    at,
    token,
    accepted,
    bonus,
    before,
    TOKENS: tl.constexpr,  # noqa: N803
):
    live = at < TOKENS
    place = request * TOKENS + at
    every = requests * TOKENS
    tl.store(narrow + place, token.to(tl.int32), mask=live)
    tl.store(narrow + every + request, accepted)
    own = narrow + 2 * every + requests + request
    tl.store(own, accepted - 1)
    tl.store(own + requests, bonus.to(tl.int32))
    tl.store(own + 2 * requests, before.to(tl.int32))
    tl.store(own + 3 * requests, tl.cast(TOKENS, tl.int32))
    tl.store(own + 4 * requests, request * TOKENS)
    tl.store(wide + request, before + accepted)
    tl.store(wide + requests + request, (request * TOKENS + accepted - 1).to(tl.int64))
    tl.store(wide + 2 * requests + place, token, mask=live)
    rest = wide + 2 * requests + every
    tl.store(rest + request, bonus)
    tl.store(rest + requests + request, before + TOKENS)
    tl.store(rest + 2 * requests + place, before + at, mask=live)


# The number of requests varies between steps, and must not compile variants.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["requests"], do_not_specialize_on_alignment=["candidates", "targets", "lens"]
)
def _verify(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    candidates,
    targets,
    lens,
    narrow,
    wide,
    requests,
    TOKENS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    request = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    live = at < TOKENS
    place = request * TOKENS + at
    target = tl.load(targets + place, mask=live, other=0)
    behind = live & (at > 0)
    drafted = tl.load(candidates + place, mask=behind, other=0)
    wanted = tl.load(targets + place - 1, mask=behind, other=0)
    # The token before the draft counts as accepted; the target's token after the last accepted one is the bonus.
    accepted = tl.min(tl.where(behind & (drafted != wanted), at, TOKENS), 0)
    taken = at < accepted
    token = tl.where(taken, target, 0)
    bonus = tl.sum(tl.where(at == accepted - 1, target, 0), 0)
    before = tl.load(lens + request)
    tl.store(narrow + requests * TOKENS + requests + place, tl.where(taken, place, -1), mask=live)
    _derive(narrow, wide, requests, request, at, token, accepted, bonus, before, TOKENS)


# As above.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["requests"], do_not_specialize_on_alignment=["predicted", "index", "drafts", "lens"]
)
def _compact(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    predicted,
    index,
    drafts,
    lens,
    narrow,
    wide,
    requests,
    DEPTH: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
):
    request = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    place = request * TOKENS + at
    on_path = tl.load(index + request * DEPTH + at, mask=at < DEPTH, other=0)
    source = tl.where(at < DEPTH, tl.maximum(on_path, 0), place)
    token = tl.load(predicted + source, mask=at < TOKENS, other=0)
    accepted = tl.load(drafts + request) + 1
    bonus = tl.sum(tl.where(at == accepted - 1, token, 0), 0)
    before = tl.load(lens + request)
    _derive(
        narrow, wide, requests, request, at, token.to(tl.int64), accepted, bonus.to(tl.int64), before, TOKENS
    )


# As above.
@triton.jit(  # type: ignore[untyped-decorator]
    do_not_specialize=["requests", "source_start"],
    do_not_specialize_on_alignment=["index", "drafts", "lens", "slots", "rows"],
)
def _move(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    index,
    drafts,
    lens,
    slots,
    rows,
    req_to_token,
    moves,
    requests,
    source_start,
    slots_per_request,
    DEPTH: tl.constexpr,  # noqa: N803
    TOKENS: tl.constexpr,  # noqa: N803
    BLOCK: tl.constexpr,  # noqa: N803
    BATCH_BLOCK: tl.constexpr,  # noqa: N803
):
    request = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    start = 0
    for first in range(0, request, BATCH_BLOCK):
        other = first + tl.arange(0, BATCH_BLOCK)
        start += tl.sum(tl.load(drafts + other, mask=other < request, other=-1) + 1, 0)
    if request < requests:
        place = request * TOKENS + at
        on_path = tl.load(index + request * DEPTH + at, mask=at < DEPTH, other=0)
        source = tl.where(at < DEPTH, tl.maximum(on_path, 0), place)
        tl.store(moves + 2 * source_start + place, source.to(tl.int64), mask=at < TOKENS)
        taken = at <= tl.load(drafts + request)
        # A pool for many long requests has more slots than 32 bits can count.
        own = (
            req_to_token + tl.load(rows + request).to(tl.int64) * slots_per_request + tl.load(lens + request)
        )
        tl.store(moves + start + at, tl.load(own + at, mask=taken, other=0).to(tl.int64), mask=taken)
        slot = tl.load(slots + source, mask=taken, other=0)
        tl.store(moves + source_start + start + at, slot.to(tl.int64), mask=taken)
    else:
        # What is left of both halves.
        for first in range(start, requests * DEPTH, BLOCK):
            none = tl.zeros((BLOCK,), tl.int64)
            tl.store(moves + first + at, none, mask=first + at < requests * DEPTH)
            tl.store(moves + source_start + first + at, none, mask=first + at < requests * DEPTH)


def verify_chains_by_kernel(drafted: DraftedChains, verified: VerifyBuffers) -> None:
    """Implement ``chain.verify_chains`` in one launch."""
    requests, tokens = drafted.candidates.shape
    _verify[(requests,)](
        drafted.candidates,
        drafted.targets,
        drafted.lens,
        verified.narrow,
        verified.wide,
        requests,
        tokens,
        triton.next_power_of_2(tokens),
        num_warps=1,
    )


def compact_trees_by_kernel(trees: VerifiedTrees, verified: VerifyBuffers) -> None:
    """Implement ``chain.compact_trees`` in one launch."""
    requests, depth = trees.places.shape
    tokens = verified.tokens.shape[0] // max(requests, 1)
    _compact[(requests,)](
        trees.predicted,
        trees.places,
        trees.drafts,
        trees.lens,
        verified.narrow,
        verified.wide,
        requests,
        depth,
        tokens,
        triton.next_power_of_2(tokens),
        num_warps=1,
    )


def moves_by_kernel(paths: AcceptedPaths, moves: PathMoves) -> None:
    """Implement ``chain.moves_of_paths`` in one launch."""
    requests, depth = paths.places.shape
    tokens = moves.order.shape[0] // requests
    _move[(requests + 1,)](
        paths.places,
        paths.drafts,
        paths.lens,
        paths.slots,
        paths.rows,
        paths.req_to_token,
        moves.buffer,
        requests,
        requests * depth + requests * depth % 2,
        paths.req_to_token.shape[1],
        depth,
        tokens,
        triton.next_power_of_2(tokens),
        _BATCH_BLOCK,
        num_warps=1,
    )
