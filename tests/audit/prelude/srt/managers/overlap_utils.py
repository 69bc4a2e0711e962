# ruff: noqa
from __future__ import annotations

from typing import Sequence


def decide_needs_cpu_seq_lens(server_args, attn_backends: Sequence[AttentionBackend]) -> bool:
    if server_args.enable_two_batch_overlap:
        return True
    if not server_args.disable_piecewise_cuda_graph:
        return True
    return any(b.needs_cpu_seq_lens for b in attn_backends if b is not None)
