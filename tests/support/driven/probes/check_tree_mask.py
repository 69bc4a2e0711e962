"""`scripts/check_tree_mask.py` in a tree, with a stand-in for the kernel."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch
from sglang.srt.speculative import eagle_utils

Told = tuple[tuple[str, int, str], bool | None, str | None]


def _write(*given: Any) -> None:
    """Write as the kernel does: the draft's own columns of each row, wherever the mask ends."""
    lens, mask, tokens = given[2], given[3], given[10]
    size = mask.untyped_storage().nbytes() // mask.element_size() - mask.storage_offset()
    flat = torch.as_strided(mask, (int(size),), (1,))
    end = 0
    for length in lens.tolist():
        for _ in range(tokens):
            flat[end + length : end + length + tokens] = 0
            end += length + tokens


def outcomes(scripts: str) -> list[Told]:
    """Return for each case the mask's owner, the number and length of requests, and the outcome."""
    sys.path.append(scripts)
    script = importlib.import_module("check_tree_mask")
    eagle_utils.sgl_build_tree_kernel_efficient = _write
    results = []
    for case in script.drawn_up(2, 64, 3):
        found = script.checked("", case, "cpu", True)
        if case.known or found.error is None or not found.error.startswith("TypeError"):
            where = "end" if case.length > case.context - case.tokens else "context"
            results.append(((case.owner, case.count, where), found.overflow, found.error))
    return results
