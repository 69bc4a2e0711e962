"""The lengths and slots of requests that decode in a batch with prefills, as later future maps look them up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.managers.overlap_utils import FutureMap
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

_POOL, _WIDTH = 8, 32


def resolved(rows: list[int], lens: list[int]) -> dict[str, Any]:
    """Publish a step's new lengths, then mix its requests into a prefill of one request; return what that has."""
    pool = SimpleNamespace(req_to_token=torch.arange(_POOL * _WIDTH).view(_POOL, _WIDTH))
    event = SimpleNamespace(record=lambda: None, wait=lambda: None)
    algorithm = SpeculativeAlgorithm.from_string("EAGLE")
    future_map = FutureMap("cpu", algorithm, pool, needs_cpu_seq_lens=False)
    future_map.publish_ready = event
    future_map.new_seq_lens_buf.zero_()
    at = torch.tensor(rows)
    future_map.publish(at, torch.tensor(lens))
    batch: Any = SimpleNamespace(
        mix_running_indices=at,
        mix_running_indices_cpu=at,
        seq_lens=torch.tensor([5, *[1] * len(rows)]),
        seq_lens_cpu=None,
        out_cache_loc=torch.zeros(5 + len(rows), dtype=torch.int64),
        prefix_lens=[0, *[0] * len(rows)],
    )
    future_map.resolve_mixed_spec_tails(batch)
    return {
        "lens": batch.seq_lens.tolist(),
        "slots": batch.out_cache_loc.tolist(),
        "prefixes": batch.prefix_lens,
    }
