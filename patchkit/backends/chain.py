"""A verified chain's outcome, and all that the rest of the step derives from it, takes one launch."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Drafted(NamedTuple):
    """A batch whose every request drafted one chain of as many tokens, on the device.

    ``candidates`` (int64, [requests, tokens], contiguous) begin with the token before the draft; ``targets`` (the same)
    are what the target says behind each of them. ``lens`` (int64, [requests], contiguous) are the lengths before.
    """

    candidates: torch.Tensor
    targets: torch.Tensor
    lens: torch.Tensor


class Verified(NamedTuple):
    """Where the outcome goes: two buffers, and views of them in this order.

    ``narrow`` (int32): ``tokens`` [requests x tokens], what is accepted and the bonus token behind it, else 0;
    ``accepted`` [requests], how many, with the bonus; ``index`` [requests x tokens], their places in the batch, or
    -1; ``drafts`` [requests], how many without the bonus; ``bonus`` [requests], the bonus tokens. ``wide`` (int64):
    ``lens_after`` [requests]; ``last`` [requests], the place of each bonus token; ``wide_tokens``, the tokens again.
    """

    narrow: torch.Tensor
    tokens: torch.Tensor
    accepted: torch.Tensor
    index: torch.Tensor
    drafts: torch.Tensor
    bonus: torch.Tensor
    wide: torch.Tensor
    lens_after: torch.Tensor
    last: torch.Tensor
    wide_tokens: torch.Tensor


def room_for(requests: int, tokens: int, device: torch.device) -> Verified:
    """Return buffers for the outcome of a batch, with nothing in them."""
    every = requests * tokens
    narrow = torch.empty(2 * every + 3 * requests, dtype=torch.int32, device=device)
    wide = torch.empty(every + 2 * requests, dtype=torch.int64, device=device)
    some = narrow.split((every, requests, every, requests, requests))
    return Verified(narrow, *some, wide, *wide.split((requests, requests, every)))


def verify_chains(drafted: Drafted, verified: Verified) -> None:
    """Write the outcome of a greedy verify of ``drafted``: on a GPU one launch, and the host waits for nothing."""
    if drafted.lens.is_cuda:
        from .chain_kernel import verify_chains_by_kernel

        verify_chains_by_kernel(drafted, verified)
    else:
        verify_chains_by_torch(drafted, verified)


def verify_chains_by_torch(drafted: Drafted, verified: Verified) -> None:
    """Do what ``verify_chains`` promises by torch operations."""
    candidates, targets, lens = drafted
    requests, tokens = candidates.shape
    drafts = (candidates[:, 1:] == targets[:, :-1]).long().cumprod(1).sum(1)
    places = torch.arange(requests * tokens, device=lens.device).view(requests, tokens)
    accepted = places[:1] <= drafts[:, None]
    last = places[:, 0] + drafts
    chosen = torch.where(accepted, targets, 0).flatten()
    verified.tokens.copy_(chosen)
    verified.accepted.copy_(drafts + 1)
    verified.index.copy_(torch.where(accepted, places, -1).flatten())
    verified.drafts.copy_(drafts)
    verified.bonus.copy_(targets.flatten()[last])
    verified.lens_after.copy_(lens + drafts + 1)
    verified.last.copy_(last)
    verified.wide_tokens.copy_(chosen)
