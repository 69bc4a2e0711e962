"""Ranks that each decide which drafts they accept have to decide alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .shapes import Ranks


def decide_as_first_rank(ranks: Ranks, *decided: torch.Tensor) -> None:
    """Overwrite what a greedy verify ``decided`` with the first rank's, on ROCm; other devices decide alike.

    Source: pull requests 34238 and 35195.
    """
    if torch.version.hip is not None and ranks.world_size > 1:
        for each in decided:
            ranks.broadcast(each, src=0)
