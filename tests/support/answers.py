"""Recorded answers of ``bench``, with one batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

RELEASE = "0.5.12.post1"


def record(
    folder: Path,
    name: str,
    ratio: float,
    *patches: str,
    release: str = RELEASE,
    over: str = "",
    options: str = "",
    gpu: str = "NVIDIA H200",
    others: int | None = 0,
    **batch: Any,
) -> None:
    """Record an answer: a release with patches over itself, or ``over`` another; without patches the same twice.

    ``others`` is the number of other GPUs that were in use, None if that was not recorded.
    """
    tree = {"name": "one", "package": "1/sglang", "version": over or release, "patches": []}
    interval = [ratio - 0.01, ratio + 0.01]
    measured = {
        "batch": 1, "step_ms": [2.0, 2.0 * ratio], "tokens_per_second": [1.0, 1.0], "accept_length": [2.0, 2.0],
        "pairs": 12, "runs_ms": [[2.0], [2.0 * ratio]], "ratio": ratio, "interval": interval, "gain": "",
        "tokens": "equal", "difference": None, "costs": [None, None], "freed": {},
    }  # fmt: skip
    answer = {
        "command": f"python -m sglang.launch_server --speculative-algorithm EAGLE3 --skip-tokenizer-init {options}",
        "trees": [tree, tree | {"patches": patches, "version": release}],
        "gpus": [gpu],
        "host": None if others is None else [{"cores": 16, "load": 1.0, "other_gpus": others}] * 2,
        "beside": True,
        "batches": [measured | batch],
        "notes": [],
    }
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(answer))
