"""Compute the outcome of a verified chain, and all that the step derives from it, in one launch."""

from __future__ import annotations

import torch

from .step_buffers import DraftedChains, VerifyBuffers


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
    verified.tokens.copy_(chosen)
    verified.accepted.copy_(drafts + 1)
    verified.places.copy_(torch.where(accepted, places, -1).flatten())
    verified.drafts.copy_(drafts)
    verified.bonus.copy_(targets.flatten()[last])
    verified.lens_after.copy_(lens + drafts + 1)
    verified.last.copy_(last)
    verified.wide_tokens.copy_(chosen)
    verified.wide_bonus.copy_(verified.bonus)
    verified.prefixes.copy_(lens)
    verified.extends.fill_(tokens)
    verified.starts.copy_(places[:, 0])
    verified.extended.copy_(lens + tokens)
    verified.positions.copy_((lens[:, None] + places[:1]).flatten())
