"""Commit the accepted tokens of a batch whose every request goes on, in one launch."""

from __future__ import annotations

import torch

from .step_buffers import AcceptedPaths, CommittedTokens


def commit_paths(paths: AcceptedPaths, predicted: torch.Tensor, total: int) -> CommittedTokens:
    """Return what accepted paths leave, add them to ``paths.lens``, and write their slots behind each length.

    ``predicted`` (int32, [requests x tokens], on the device, contiguous) are the target's tokens after each draft
    token; ``total`` is how many tokens the batch accepted. A path's places are those of its own request, of which
    every request has as many. On a GPU it is one launch, without blocking the host.
    """
    requests = paths.lens.shape[0]
    device = paths.lens.device
    narrow = torch.empty(2 * total + 3 * requests, dtype=torch.int32, device=device)
    wide = torch.empty(total + paths.slots.shape[0], dtype=torch.int64, device=device)
    some = narrow.split_with_sizes((total, total, requests, requests, requests))
    others = wide.split_with_sizes((total, total, paths.slots.shape[0] - total))
    committed = CommittedTokens._make((narrow, *some, wide, *others))
    if device.type == "cuda":
        from .commit_kernel import commit_by_kernel

        commit_by_kernel(paths, predicted, committed)
    else:
        commit_by_torch(paths, predicted, committed)
    return committed


def commit_by_torch(paths: AcceptedPaths, predicted: torch.Tensor, committed: CommittedTokens) -> None:
    """Do what ``commit_paths`` promises, by torch operations."""
    column = torch.arange(paths.places.shape[1], device=paths.lens.device)
    taken = column <= paths.drafts[:, None]
    counts = paths.drafts + 1
    places = paths.places[taken].long()
    positions = (paths.lens[:, None] + column)[taken]
    rejected = torch.ones_like(paths.slots, dtype=torch.bool)
    rejected[places] = False
    committed.places.copy_(places)
    committed.tokens.copy_(predicted[places])
    committed.counts.copy_(counts)
    last = counts.cumsum(0) - 1
    committed.bonus.copy_(committed.tokens[last])
    committed.starts.copy_(last + 1 - counts)
    committed.kept.copy_(paths.slots[places])
    committed.positions.copy_(positions)
    committed.freed.copy_(paths.slots[rejected])
    rows = paths.rows.long()[:, None].expand(-1, column.shape[0])[taken]
    paths.req_to_token[rows, positions] = committed.kept.to(paths.req_to_token.dtype)
    paths.lens.add_(counts)
