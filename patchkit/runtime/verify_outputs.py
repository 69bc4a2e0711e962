"""Write all values that a step derives from a greedy verify in one launch: of a chain in the verify's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..backends.chain import compact_trees, moves_of_paths, uninitialised_buffers, verify_chains
from ..backends.step_buffers import AcceptedPaths, DraftedChains, VerifiedTrees, VerifyBuffers
from .accepted_tokens import extend_of_accepted
from .streams import current_handle
from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_OUTCOME = "patchkit_outcome"


class _Outcome(NamedTuple):
    """The outcome of a verified batch; stored on its accepted lengths, which it must not contain, to avoid a cycle."""

    lens: torch.Tensor
    # The tokens and the accepted lengths, which the host reads, in one tensor.
    head: torch.Tensor
    tokens: torch.Tensor
    drafts: torch.Tensor
    bonus: torch.Tensor
    lens_after: torch.Tensor
    last: torch.Tensor
    wide_tokens: torch.Tensor
    # A tree's accepted path, whose tokens are in front in ``tokens`` and not in those that the verify returned.
    trees: VerifiedTrees | None


class _Extend(NamedTuple):
    """The inputs of a draft-extend of the verified tokens; stored on these tokens, for use on the verify's stream."""

    stream: object
    stride: int
    prefixes: torch.Tensor
    extends: torch.Tensor
    starts: torch.Tensor
    extended: torch.Tensor
    positions: torch.Tensor


class _VerifiedBatch(NamedTuple):
    lens: torch.Tensor
    verified: VerifyBuffers


def verify_outputs(
    candidates: torch.Tensor,
    lens: torch.Tensor,
    shape: Sequence[int],
    width: int,
    topk: int | None,
    *,
    paths: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a verify's buffers: tokens, [``shape``] flattened, positions, [requests, ``width``], counts, [requests].

    All are int32, filled with 0, -1 and 0 as the tree's own kernel needs them. ``topk`` is that of a greedy verify,
    None for any other. For a greedy chain they are uninitialised before `verify_chain`, which writes every element;
    with ``paths`` what follows from several branches is written by `with_bonus`.
    ``candidates``: int64, [requests, draft tokens]; ``lens``: integer, [requests], both on the device. Source:
    pk-verify-outputs.
    """
    requests, tokens = candidates.shape
    one_launch = (
        topk is not None
        and tokens >= width > 1
        and requests * tokens == torch.Size(shape).numel() > 0
        and candidates.dtype == lens.dtype == torch.int64
        and lens.device.type in {"cpu", "cuda"}
        and torch.version.hip is None
        and not disabled("pk-verify-outputs")
    )
    if one_launch and topk == 1 and tokens == width:
        verified = uninitialised_buffers(requests, tokens, lens.device)
        setattr(verified.drafts, _OUTCOME, _VerifiedBatch(lens, verified))
        return verified.tokens, verified.places.view(requests, tokens), verified.drafts
    device = candidates.device
    predicted = torch.zeros(shape, dtype=torch.int32, device=device).flatten()
    index = torch.full((requests, width), -1, dtype=torch.int32, device=device)
    drafts = torch.empty((requests,), dtype=torch.int32, device=device)
    # N-gram speculation, whose top-k is negative, moves its own paths.
    if one_launch and topk is not None and topk > 1 and paths and not disabled("pk-accepted-paths"):
        # By reference to the counts there would be a cycle.
        setattr(drafts, _OUTCOME, (predicted, index, lens))
    return predicted, index, drafts


def verify_chain(drafts: torch.Tensor, candidates: torch.Tensor, targets: torch.Tensor) -> bool:
    """Verify a chain into the buffers of `verify_outputs`; return False, with nothing written, if the tree has to.

    ``drafts``: the counts that it returned; ``targets``: int64, [requests, draft tokens], the likeliest tokens, on
    the device. Source: pk-verify-outputs.
    """
    batch = getattr(drafts, _OUTCOME, None)
    if not isinstance(batch, _VerifiedBatch):
        return False
    verify_chains(
        DraftedChains(candidates.contiguous(), targets.contiguous(), batch.lens.contiguous()),
        batch.verified,
    )
    return True


def with_bonus(drafts: torch.Tensor) -> torch.Tensor:
    """Return accepted lengths, ``drafts`` (int32, [requests]) plus 1; a verified chain's are already computed.

    With several branches, and pk-accepted-paths, all that follows is written now. Source: pk-verify-outputs.
    """
    batch = getattr(drafts, _OUTCOME, None)
    if batch is None:
        return drafts + 1
    delattr(drafts, _OUTCOME)
    trees = None
    if isinstance(batch, _VerifiedBatch):
        made = batch.verified
    else:
        predicted, index, lens = batch
        trees = VerifiedTrees(predicted, index, drafts, lens.contiguous())
        made = uninitialised_buffers(drafts.shape[0], predicted.shape[0] // drafts.shape[0], drafts.device)
        compact_trees(trees, made)
        batch = _VerifiedBatch(lens, made)
    head = made.narrow[: made.tokens.shape[0] + made.accepted.shape[0]]
    outcome = _Outcome(
        batch.lens, head, made.tokens, drafts, made.bonus, made.lens_after, made.last, made.wide_tokens, trees
    )
    setattr(made.accepted, _OUTCOME, outcome)
    setattr(made.bonus, _OUTCOME, made.wide_bonus)
    stride = made.tokens.shape[0] // drafts.shape[0]
    extend = _Extend(
        current_handle(drafts.device),
        stride,
        made.prefixes,
        made.extends,
        made.starts,
        made.extended,
        made.positions,
    )
    for tokens in (made.tokens, made.wide_tokens):
        setattr(tokens, _OUTCOME, extend)
    return made.accepted


def _outcome(accept_lens: torch.Tensor) -> _Outcome | None:
    return getattr(accept_lens, _OUTCOME, None)


def lens_after_verify(lens: torch.Tensor, accept_lens: torch.Tensor) -> torch.Tensor:
    """Return ``lens`` plus the accepted lengths, integer, [requests], on the device. Source: pk-verify-outputs."""
    outcome = _outcome(accept_lens)
    return lens + accept_lens if outcome is None or outcome.lens is not lens else outcome.lens_after


def chain_bonus_tokens(accept_lens: torch.Tensor) -> torch.Tensor | None:
    """Return the bonus tokens (int32, [requests]) of a verified chain, else None. Source: pk-verify-outputs."""
    outcome = _outcome(accept_lens)
    return None if outcome is None else outcome.bonus


def bonus_as(bonus: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return bonus tokens, integer, [requests], as ``dtype``; a verified chain's are there in both widths."""
    wide: torch.Tensor | None = getattr(bonus, _OUTCOME, None)
    return wide if wide is not None and wide.dtype == dtype else bonus.to(dtype)


def compact_paths(  # noqa: PLR0917
    batch: Any,
    accept_index: torch.Tensor,
    accept_lens: torch.Tensor,
    predicted: torch.Tensor,
    output: Any,
    allocator: Any,
) -> torch.Tensor | None:
    """Move each accepted path of a greedy verify to the front of its request's tokens, and return all tokens.

    That are the slots of the batch's keys, and the hidden states of ``output``. Return None, with nothing moved, if
    the tree has to. ``accept_index`` (int32, [requests, depth]), ``accept_lens`` and ``predicted`` are what the
    verify returned. Source: pk-accepted-paths.
    """
    outcome = _outcome(accept_lens)
    trees = None if outcome is None else outcome.trees
    if (
        outcome is None
        or trees is None
        or trees.predicted is not predicted
        or trees.places is not accept_index
    ):
        return None
    slots, table = batch.out_cache_loc, batch.req_to_token_pool.req_to_token
    if slots.shape != predicted.shape or slots.dtype != torch.int64 or not table.is_contiguous():
        return None
    rows = batch.req_pool_indices.contiguous()
    paths = AcceptedPaths(accept_index, trees.drafts, trees.lens, slots.contiguous(), rows, table)
    moves = moves_of_paths(paths)
    allocator.get_kvcache().move_kv_cache(moves.to, moves.source)
    if output.hidden_states is not None:
        output.hidden_states = output.hidden_states[moves.order]
    return outcome.tokens


def correct_drafts(accept_lens: torch.Tensor) -> torch.Tensor:
    """Return the accepted lengths without the bonus token, [requests]. Source: pk-verify-outputs."""
    outcome = _outcome(accept_lens)
    return accept_lens - 1 if outcome is None else outcome.drafts


def last_of_chain(accept_lens: torch.Tensor, stride: int) -> torch.Tensor | None:
    """Return each request's last accepted position, int64, None unless it verified a chain of ``stride`` tokens."""
    outcome = _outcome(accept_lens)
    if outcome is None or outcome.tokens.shape[0] != accept_lens.shape[0] * stride:
        return None
    return outcome.last


def wide_tokens(tokens: torch.Tensor, accept_lens: torch.Tensor) -> torch.Tensor:
    """Return ``tokens`` as int64. Source: pk-verify-outputs."""
    outcome = _outcome(accept_lens)
    return tokens.to(torch.int64) if outcome is None or outcome.tokens is not tokens else outcome.wide_tokens


def _extend_of(tokens: torch.Tensor, requests: int, stride: int) -> _Extend | None:
    extend: _Extend | None = getattr(tokens, _OUTCOME, None)
    if extend is None or (extend.stride, extend.prefixes.shape[0]) != (stride, requests):
        return None
    # A plan stream may not be behind the verify.
    return extend if extend.stream == current_handle(tokens.device) else None


def chain_extend_lens(
    tokens: torch.Tensor, lens: torch.Tensor, stride: int, front: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a draft-extend's extend lengths, of ``stride`` tokens, and ``lens`` before it: int32, [requests].

    ``tokens`` are those that it writes, from the verify; the first ``front`` of each request's are older. Source:
    pk-verify-outputs.
    """
    extend = None if front else _extend_of(tokens, lens.shape[0], stride)
    if extend is not None:
        return extend.extends, extend.prefixes
    extends = torch.full((lens.shape[0],), stride, dtype=torch.int32, device=lens.device)
    return extends, ((lens - front).clamp(min=0) if front else lens).to(torch.int32)


def chain_prefix_lens(tokens: torch.Tensor, extended: torch.Tensor, stride: int) -> torch.Tensor:
    """Return the lengths, integer, [requests], before a draft-extend of ``tokens``: ``extended`` less ``stride``.

    Source: pk-verify-outputs.
    """
    extend = _extend_of(tokens, extended.shape[0], stride)
    return extended - stride if extend is None else extend.prefixes


def chain_extended_lens(tokens: torch.Tensor, lens: torch.Tensor, stride: int) -> torch.Tensor:
    """Return ``lens``, integer, [requests], plus ``stride``, the lengths after a draft-extend of ``tokens``.

    Source: pk-verify-outputs.
    """
    extend = _extend_of(tokens, lens.shape[0], stride)
    return lens + stride if extend is None else extend.extended


def chain_positions(batch: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return a draft-extend's positions (int64) and each request's first token (int32), None if they are not computed.

    ``batch`` is the forward batch with the verify's tokens; those of a v1 verify that pk-accepted-tokens committed have
    theirs too. Source: pk-verify-outputs.
    """
    if not batch.forward_mode.is_draft_extend_v2():
        committed = extend_of_accepted(batch.input_ids)
        return None if committed is None else (committed.positions, committed.starts)
    requests = batch.batch_size
    extend = _extend_of(batch.input_ids, requests, batch.extend_num_tokens // max(requests, 1))
    return None if extend is None else (extend.positions, extend.starts)


def copy_outputs(result: Any, copy: Callable[[torch.Tensor], torch.Tensor] | None = None) -> bool:
    """Copy a verified chain's tokens and accepted lengths to the host in one copy; return False if the tree has to.

    The host does not wait, as with ``non_blocking``; ``copy`` is the tree's own way to do so. Source:
    pk-verify-outputs.
    """
    accepted = result.accept_lens
    outcome = None if accepted is None else _outcome(accepted)
    if accepted is None or outcome is None or outcome.tokens is not result.next_token_ids:
        return False
    head = outcome.head.to("cpu", non_blocking=True) if copy is None else copy(outcome.head)
    sizes = (outcome.tokens.shape[0], accepted.shape[0])
    result.next_token_ids, result.accept_lens = head.split_with_sizes(sizes)
    return True
