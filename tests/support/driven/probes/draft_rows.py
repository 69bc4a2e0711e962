"""The size of FlashInfer's draft graph buffers, and what the tree's own kernel, interpreted, writes there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.flashinfer_backend import FlashInferMultiStepDraftBackend
from sglang.srt.layers.attention.flashinfer_mla_backend import FlashInferMLAMultiStepDraftBackend
from sglang.srt.speculative.spec_utils import generate_draft_decode_kv_indices

from .recorders import PretendedCuda

_BACKENDS = {"mha": FlashInferMultiStepDraftBackend, "mla": FlashInferMLAMultiStepDraftBackend}
_NOBODYS = -7


def drafted(kind: str, lens: list[int], *, topk: int, steps: int, context: int) -> dict[str, Any]:
    """Write the KV indices of a draft with as many requests as its graphs have into their buffer.

    Returns what each step reads, how many entries beyond the buffer were written, and how many it has.
    """
    requests = len(lens)
    draft: Any = object.__new__(_BACKENDS[kind])
    vars(draft).update(
        topk=topk,
        speculative_num_steps=steps,
        max_context_len=context,
        pool_len=context,
        page_size=1,
        generate_draft_decode_kv_indices=generate_draft_decode_kv_indices,
        kv_indptr=torch.zeros((steps, requests * topk + 1), dtype=torch.int32),
        attn_backends=[SimpleNamespace(init_cuda_graph_state=lambda *_, **__: None)] * (steps - 1),
    )
    with PretendedCuda():
        draft.init_cuda_graph_state(requests, requests * topk)
    made = draft.cuda_graph_kv_indices.as_subclass(torch.Tensor)
    room = torch.full((made.numel() + steps * requests * topk * context,), _NOBODYS, dtype=made.dtype)
    buffer = room[: made.numel()].view(made.shape)
    batch = SimpleNamespace(
        batch_size=requests,
        seq_lens=torch.tensor(lens),
        seq_lens_sum=sum(lens),
        req_pool_indices=torch.arange(requests),
        req_to_token_pool=SimpleNamespace(
            req_to_token=torch.arange(requests * context, dtype=torch.int32).view(requests, context)
        ),
        positions=torch.tensor(lens).repeat_interleave(topk),
        spec_info=SimpleNamespace(is_draft_input=lambda: True),
    )
    read = []
    draft.common_template(batch, buffer, lambda _, planned: read.append(planned.spec_info.kv_indices))
    return {
        "read": [indices.tolist() for indices in read],
        "behind": int((room[made.numel() :] != _NOBODYS).sum()),
        "entries": made.numel(),
    }
