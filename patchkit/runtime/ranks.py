"""Make all ranks accept the same draft tokens."""

from __future__ import annotations

from typing import Any

import torch


def decide_as_first_rank(ranks: Any, *decided: torch.Tensor) -> None:
    """Overwrite a greedy verify's result ``decided`` with the first rank's, on ROCm only, where ranks may differ.

    Source: pull requests 34238 and 35195.
    """
    if torch.version.hip is not None and ranks.world_size > 1:
        for each in decided:
            ranks.broadcast(each, src=0)
