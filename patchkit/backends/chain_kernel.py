"""Compare drafted chains with the target's tokens, and write all derived values, in one launch.

Imported only where Triton is needed: by ``chain``, for tensors on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    from .step_buffers import DraftedChains, VerifyBuffers


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
    every = requests * TOKENS
    tl.store(narrow + place, token.to(tl.int32), mask=live)
    tl.store(narrow + every + requests + place, tl.where(taken, place, -1), mask=live)
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
