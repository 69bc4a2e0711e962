"""Tensors that are the same in every step are made once, and never while a graph is captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Made = TypeVar("Made")

# They are kept for good: a graph that was captured with one reads it in every replay.
_made: dict[Hashable, object] = {}


def made_once(
    make: Callable[[int, int, torch.device], Made], rows: int, width: int, device: torch.device
) -> Made | None:
    """Return what ``make`` makes for at least ``rows`` rows, to be read only; None where the caller has to make it.

    What a capture makes, each replay would fill again, and it would hold nothing before the first. So it is not made
    while a graph is captured on a GPU, and not at all on a device of another kind, of which that cannot be asked.
    """
    if device.type not in {"cpu", "cuda"}:
        return None
    # Few sizes, so that a server whose batches vary keeps few.
    size = 1 << max(rows - 1, 0).bit_length()
    key = (make, size, width, device)
    if key not in _made:
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return None
        _made[key] = make(size, width, device)
    return _made[key]  # type: ignore[return-value]
