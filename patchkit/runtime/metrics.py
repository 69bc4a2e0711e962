"""Lengths for decode metrics, from the mirror or the requests, without waiting for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from .shapes import DecodeBatch


def decode_total_seq_lens(batch: DecodeBatch) -> int:
    """Return the total length of a decode batch in tokens. Source: pull request 26128."""
    if batch.seq_lens_cpu is not None:
        return int(batch.seq_lens_cpu.sum())
    return sum(request.seqlen for request in batch.reqs)


def decode_seq_lens(batch: DecodeBatch) -> Iterable[int | torch.Tensor]:
    """Return each request's length in tokens, as the mirror's elements or ints. Source: upstream issue 40234."""
    if batch.seq_lens_cpu is not None:
        lens: Iterable[int | torch.Tensor] = batch.seq_lens_cpu
        return lens
    return [request.seqlen for request in batch.reqs]
