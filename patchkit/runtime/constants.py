"""Cache tensors that are the same in every step, and never create them while a graph is captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Made = TypeVar("Made")

# Never freed, since captured graphs read them in every replay.
_made: dict[Hashable, object] = {}


def made_once(
    make: Callable[[int, int, torch.device], Made], rows: int, width: int, device: torch.device
) -> Made | None:
    """Return the cached result of ``make`` for at least ``rows`` rows, read only; None if the caller has to make it.

    A tensor made in a capture would be filled by every replay and be empty before the first. Therefore the result
    is None while a graph is captured on a GPU, and on other devices than CPU and CUDA, where that is not known.
    """
    if device.type not in {"cpu", "cuda"}:
        return None
    # Round up to a power of two, to cache few sizes.
    size = 1 << max(rows - 1, 0).bit_length()
    key = (make, size, width, device)
    if key not in _made:
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            return None
        _made[key] = make(size, width, device)
    return _made[key]  # type: ignore[return-value]
