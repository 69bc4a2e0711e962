"""The tree mask of a verify: its size from the workers' draft, with the total length known or bounded."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.speculative import eagle_utils, eagle_worker_v2, multi_layer_eagle_worker_v2
from sglang.srt.speculative.eagle_utils import TreeMaskMode
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker
from sglang.srt.speculative.multi_layer_eagle_worker_v2 import MultiLayerEagleDraftWorker

from . import attention_backends as backends

WORKERS = {
    "eagle": (EagleDraftWorker, eagle_worker_v2),
    "multi-layer": (MultiLayerEagleDraftWorker, multi_layer_eagle_worker_v2),
}


def drafted(
    worker: str,
    kind: str,
    server: dict[str, Any],
    lens: list[int],
    *,
    total: int | None,
    mode: str = "FULL_MASK",
    graph: int | None = None,
    disable: str = "",
) -> dict[str, Any]:
    """Let a worker's draft end in a verify's input; ``graph`` says for how many requests the target has graphs.

    ``disable`` names patches that are off.
    Returns the total that the mask was sized by, the mask, and what the kernel that fills it was given.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    backend = backends.target(kind, server, graph)
    cls, module = WORKERS[worker]
    count, tokens, topk, steps = len(lens), server["draft_tokens"], server["topk"], server["steps"]
    results = (torch.zeros(count, topk), torch.zeros(count, tokens - 1), torch.ones(count, tokens - 1))
    prepared = SimpleNamespace(forward_mode=backends.MODES["decode"]), True
    batch = SimpleNamespace(
        forward_mode=backends.MODES["decode"],
        seq_lens=torch.tensor(lens, dtype=torch.int64),
        seq_lens_sum=total,
        spec_info=SimpleNamespace(
            bonus_tokens=torch.ones(count),
            prepare_for_v2_draft=lambda *_: prepared,
        ),
    )
    drafting = object.__new__(cls)
    drafting.__dict__ |= {
        # The worker's own in later trees.
        "prepare_for_draft": lambda *_, **__: prepared,
        "req_to_token_pool": None,
        "cuda_graph_runner": SimpleNamespace(replay=lambda _: results, execute=lambda _: (*results, None)),
        "draft_forward": lambda _: results,
        "draft_runner": SimpleNamespace(canary_manager=None),
        "draft_runner_list": [None],
        "target_worker": SimpleNamespace(model_runner=SimpleNamespace(attn_backend=backend)),
        "topk": topk,
        "speculative_num_steps": steps,
        "speculative_num_draft_tokens": tokens,
        "tree_mask_mode": TreeMaskMode[mode],
    }
    filled: list[Any] = []
    totals: list[Any] = []
    build = module.build_tree_kernel_efficient

    def build_and_note(*arguments: Any) -> Any:
        totals.append(arguments[5])
        return build(*arguments)

    reads = backends.HostReads()
    eagle_utils.sgl_build_tree_kernel_efficient = lambda *arguments: filled.append(arguments)
    module.build_tree_kernel_efficient = build_and_note
    try:
        with reads:
            verify = drafting.draft(batch)
    finally:
        module.build_tree_kernel_efficient = build
    mask = verify.custom_mask
    ((_, _, kernel_lens, kernel_mask, kernel_positions, *_),) = filled
    preallocated = mask is backend.get_verify_buffers_to_fill_after_draft()[0]
    return {
        # What is preallocated is not sized, so that an unknown total is any number then.
        "total": None if preallocated and total is None else totals[0],
        "mask": (str(mask.dtype), mask.numel(), int(mask.to(torch.int64).sum())),
        "preallocated": preallocated,
        "kernel_fills_it": kernel_mask is mask,
        "lens": kernel_lens.tolist(),
        "positions": (kernel_positions.numel(), verify.positions is kernel_positions),
        "host_reads": reads.count,
    }
