"""Copy many small tensors into a graph's buffers with one launch per pair of dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Sequence


def copy_together(copies: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copy each pair's second tensor into its first, of the same shape, on the current stream.

    No destination may share memory with another pair's tensors. On a GPU, pairs of the same two dtypes take one
    launch; large tensors are copied faster alone. Source: 28465.
    """
    if disabled("28465"):
        for destination, source in copies:
            destination.copy_(source)
        return
    groups: dict[tuple[torch.dtype, torch.dtype], tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    for destination, source in copies:
        destinations, sources = groups.setdefault((destination.dtype, source.dtype), ([], []))
        destinations.append(destination)
        sources.append(source)
    for destinations, sources in groups.values():
        if len(sources) > 1:
            torch._foreach_copy_(destinations, sources)
        else:
            destinations[0].copy_(sources[0])
