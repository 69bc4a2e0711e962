"""Compute the outcome of a verified chain or tree, and all that the step derives from it, in one launch."""

from __future__ import annotations

import torch

from .step_buffers import AcceptedPaths, DraftedChains, PathMoves, VerifiedTrees, VerifyBuffers


def uninitialised_buffers(requests: int, tokens: int, device: torch.device) -> VerifyBuffers:
    """Return uninitialised buffers for the outcome of a batch."""
    every = requests * tokens
    narrow = torch.empty(2 * every + 6 * requests, dtype=torch.int32, device=device)
    wide = torch.empty(2 * every + 4 * requests, dtype=torch.int64, device=device)
    # Half the time of `split`, which is written in Python.
    some = narrow.split_with_sizes((every, requests, every, *[requests] * 5))
    others = wide.split_with_sizes((requests, requests, every, requests, requests, every))
    return VerifyBuffers._make((narrow, *some, wide, *others))


def verify_chains(drafted: DraftedChains, verified: VerifyBuffers) -> None:
    """Write the outcome of a greedy verify of ``drafted``: on a GPU in one launch, without blocking the host."""
    if drafted.lens.is_cuda:
        from .chain_kernel import verify_chains_by_kernel

        verify_chains_by_kernel(drafted, verified)
    else:
        verify_chains_by_torch(drafted, verified)


def verify_chains_by_torch(drafted: DraftedChains, verified: VerifyBuffers) -> None:
    """Implement ``verify_chains`` by torch operations."""
    candidates, targets, lens = drafted
    requests, tokens = candidates.shape
    drafts = (candidates[:, 1:] == targets[:, :-1]).long().cumprod(1).sum(1)
    places = torch.arange(requests * tokens, device=lens.device).view(requests, tokens)
    accepted = places[:1] <= drafts[:, None]
    last = places[:, 0] + drafts
    chosen = torch.where(accepted, targets, 0).flatten()
    verified.places.copy_(torch.where(accepted, places, -1).flatten())
    _derive(chosen, drafts, targets.flatten()[last], lens, verified)


def compact_trees(trees: VerifiedTrees, verified: VerifyBuffers) -> None:
    """Write what follows from verified trees whose paths move to the front: on a GPU in one launch, without blocking.

    That is the outcome of as many chains, without ``places``. A path's tokens are followed by the batch's first one
    to its greatest depth, and by those of the draft tokens behind that.
    """
    if trees.lens.is_cuda:
        from .chain_kernel import compact_trees_by_kernel

        compact_trees_by_kernel(trees, verified)
    else:
        chosen = trees.predicted[_order(trees.places, verified.tokens.shape[0])]
        bonus = chosen.view(trees.places.shape[0], -1).gather(1, trees.drafts.long()[:, None])[:, 0]
        _derive(chosen, trees.drafts, bonus, trees.lens, verified)


def moves_of_paths(paths: AcceptedPaths) -> PathMoves:
    """Return where accepted paths move to the front: on a GPU in one launch, without blocking the host."""
    requests, depth = paths.places.shape
    count, padding = requests * depth, requests * depth % 2
    sizes = (count, padding, count, padding, paths.slots.shape[0])
    buffer = torch.empty(sum(sizes), dtype=torch.int64, device=paths.lens.device)
    to, _, source, _, order = buffer.split_with_sizes(sizes)
    moves = PathMoves(buffer, to, source, order)
    if paths.lens.is_cuda:
        from .chain_kernel import moves_by_kernel

        moves_by_kernel(paths, moves)
        return moves
    buffer.zero_()
    column = torch.arange(depth, device=buffer.device)
    taken = column <= paths.drafts[:, None]
    count = int(taken.sum())
    behind = paths.req_to_token[paths.rows.long()[:, None], (paths.lens[:, None] + column) * taken]
    moves.to[:count].copy_(behind[taken])
    moves.source[:count].copy_(paths.slots[paths.places[taken].long()])
    moves.order.copy_(_order(paths.places, moves.order.shape[0]))
    return moves


def _order(index: torch.Tensor, places: int) -> torch.Tensor:
    """Return the places from which a batch's tokens come when each path moves to the front of its request's."""
    requests, depth = index.shape
    order = torch.arange(places, device=index.device).view(requests, -1)
    order[:, :depth] = index.clamp(min=0)
    return order.flatten()


def _derive(
    chosen: torch.Tensor,
    drafts: torch.Tensor,
    bonus: torch.Tensor,
    lens: torch.Tensor,
    verified: VerifyBuffers,
) -> None:
    """Write all but the places of accepted tokens."""
    requests = lens.shape[0]
    tokens = chosen.shape[0] // max(requests, 1)
    starts = torch.arange(requests, device=lens.device) * tokens
    verified.tokens.copy_(chosen)
    verified.accepted.copy_(drafts + 1)
    verified.drafts.copy_(drafts)
    verified.bonus.copy_(bonus)
    verified.lens_after.copy_(lens + drafts + 1)
    verified.last.copy_(starts + drafts)
    verified.wide_tokens.copy_(chosen)
    verified.wide_bonus.copy_(verified.bonus)
    verified.prefixes.copy_(lens)
    verified.extends.fill_(tokens)
    verified.starts.copy_(starts)
    verified.extended.copy_(lens + tokens)
    verified.positions.copy_((lens[:, None] + torch.arange(tokens, device=lens.device)).flatten())
