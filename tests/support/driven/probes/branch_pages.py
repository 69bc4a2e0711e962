"""Which pages a replayed step of FlashAttention-3's draft looks up for the tokens of its branches."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.flashattention_backend import FlashAttentionBackend
from sglang.srt.model_executor.forward_batch_info import ForwardMode


def replayed(slots: list[list[int]], *, step: int, page: int) -> dict[str, Any]:
    """Replay one step of a draft of one request; ``slots`` are those of each branch, one for each step.

    Returns the page table of the branches' own tokens, and their lengths.
    """
    # What is compiled does not look at its indices.
    torch.compiler.set_stance("force_eager")
    branches, steps = len(slots), len(slots[0])
    backend: Any = object.__new__(FlashAttentionBackend)
    own = SimpleNamespace(
        cache_seqlens_int32=torch.zeros(branches, dtype=torch.int32),
        # As many columns as the tree's own `init_cuda_graph_state` gives a step.
        page_table=torch.zeros((branches, step + 2), dtype=torch.int32),
    )
    prefix = SimpleNamespace(
        cache_seqlens_int32=torch.zeros(1, dtype=torch.int32),
        page_table=torch.zeros((1, 8), dtype=torch.int32),
        max_seq_len_k=0,
    )
    vars(backend).update(
        topk=branches,
        page_size=page,
        speculative_step_id=step,
        speculative_num_steps=steps,
        decode_cuda_graph_metadata={"strided_indices": torch.arange(0, 8 * page, page)},
        draft_decode_metadata_topk_normal={1: prefix},
        draft_decode_metadata_topk_expand={1: own},
        req_to_token=torch.arange(8 * page).view(1, -1),
        use_sliding_window_kv_pool=False,
        has_swa=False,
        attention_chunk_size=None,
    )
    given = {
        "bs": 1,
        "req_pool_indices": torch.tensor([0]),
        "seq_lens": torch.tensor([2 * page]),
        "seq_lens_sum": 2 * page,
        "encoder_lens": None,
        "forward_mode": ForwardMode.DECODE,
        "spec_info": SimpleNamespace(),
        "seq_lens_cpu": torch.tensor([2 * page]),
        "out_cache_loc": torch.tensor(slots).flatten(),
    }
    replay = backend.init_forward_metadata_replay_cuda_graph
    replay(**{name: given[name] for name in inspect.signature(replay).parameters})
    return {"pages": own.page_table.tolist(), "lengths": own.cache_seqlens_int32.tolist()}
