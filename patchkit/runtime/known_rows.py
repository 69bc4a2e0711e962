"""Avoid gathering rows whose positions are known, and recomputing what is the same in every step."""

from __future__ import annotations

import torch

from .constants import made_once
from .switches import disabled
from .verify_outputs import last_of_chain

_NEIGHBOURS = "patchkit_neighbours"


def mark_neighbours(indices: torch.Tensor, start: int, stop: int) -> None:
    """Mark ``indices``, integer, shape [rows], as the range ``start``, ``start + 1``, … up to ``stop``, exclusive.

    Tensors that are made from them do not inherit the mark. Source: pk-small-launches.
    """
    if not disabled("pk-small-launches"):
        setattr(indices, _NEIGHBOURS, slice(start, stop))


def neighbours(indices: torch.Tensor) -> torch.Tensor | slice:
    """Return the slice that ``indices`` were marked as, else ``indices``; a slice of a table needs no copy.

    Source: pk-small-launches.
    """
    marked: slice | None = getattr(indices, _NEIGHBOURS, None)
    return indices if marked is None else marked


def _before_first(rows: int, stride: int, device: torch.device) -> torch.Tensor:
    return torch.arange(rows, device=device) * stride - 1


def last_accepted(accept_lens: torch.Tensor, stride: int) -> torch.Tensor:
    """Return the row of each request's last accepted token, int64, shape [batch]; each request has ``stride`` rows.

    ``accept_lens``: integer, shape [batch], on the device, including the bonus token. Source: pk-small-launches.
    """
    known = last_of_chain(accept_lens, stride)
    if known is not None:
        return known
    rows, device = accept_lens.shape[0], accept_lens.device
    before = None if disabled("pk-small-launches") else made_once(_before_first, rows, stride, device)
    if before is None:
        before = _before_first(rows, stride, device)
    return before[:rows] + accept_lens
