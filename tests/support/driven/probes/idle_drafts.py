"""Which layers of multi-layer EAGLE plan a draft-extend without a graph."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative import multi_layer_eagle_worker_v2 as module

from .decisions import bare

LAYERS = 3
TOKENS = 4


def planned(lens: list[int]) -> list[int]:
    """Return the layers that plan a draft-extend of requests of these lengths, without any on an idle rank.

    Each plans as backends do that need the longest length.
    """
    count = len(lens)
    found: list[int] = []

    def plan(layer: int, batch: Any) -> None:
        batch.seq_lens_cpu.max()
        found.append(layer)

    batch = SimpleNamespace(
        forward_mode=ForwardMode.DRAFT_EXTEND_V2 if lens else ForwardMode.IDLE,
        seq_lens_cpu=torch.tensor(lens),
        spec_info=SimpleNamespace(),
        extend_seq_lens=None,
        input_ids=torch.zeros(count * TOKENS, dtype=torch.int64),
    )
    rows = torch.zeros(count, 8)
    output = SimpleNamespace(logits_output=SimpleNamespace(next_token_logits=rows, hidden_states=None))
    worker = bare(module.MultiLayerEagleDraftWorker)
    vars(worker).update(
        plan_stream_ctx=nullcontext(),
        plan_stream=None,
        cuda_graph_runner_for_draft_extend=None,
        speculative_num_steps=LAYERS,
        speculative_num_draft_tokens=TOKENS,
        draft_extend_num_front_tokens=0,
        use_rejection_sampling=False,
        chain_mtp_hidden_states=False,
        topk=1,
        device="cpu",
        server_args=None,
        draft_runner_list=[
            SimpleNamespace(
                req_to_token_pool=None,
                token_to_kv_pool=None,
                attn_backend=SimpleNamespace(
                    init_forward_metadata=lambda batch, layer=layer: plan(layer, batch)
                ),
                forward=lambda _: output,
            )
            for layer in range(LAYERS)
        ],
        _compute_boundary_kv_locs_positions=lambda _: (None, None, None),
        _apply_deferred_mamba_init_to_draft_pools=lambda _: None,
        _fill_boundary_kv_front_and_update_stash=lambda *_: None,
    )
    names = {
        "prepare_for_draft_extend": lambda *_, **__: batch,
        "require_gathered_buffer": lambda *_: False,
        "logger": SimpleNamespace(warning_once=lambda _: None),
    }
    for name, value in names.items():
        setattr(module, name, value)
    result = SimpleNamespace(
        logits_output=SimpleNamespace(hidden_states=None),
        next_token_ids=torch.zeros(count * TOKENS, dtype=torch.int64),
        accept_lens=torch.ones(count, dtype=torch.int64),
        next_draft_input=SimpleNamespace(),
    )
    worker._draft_extend_for_decode(SimpleNamespace(seq_lens=torch.tensor(lens)), result)
    return found
