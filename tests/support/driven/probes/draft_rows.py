"""FlashInfer's plans of a draft: the graphs' buffers, what the tree's kernel, interpreted, writes, and the offsets."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention import flashinfer_backend
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
        seq_lens_cpu=torch.tensor(lens),
        req_pool_indices=torch.arange(requests),
        req_to_token_pool=SimpleNamespace(
            req_to_token=torch.arange(requests * context, dtype=torch.int32).view(requests, context)
        ),
        positions=torch.tensor(lens).repeat_interleave(topk),
        spec_info=SimpleNamespace(is_draft_input=lambda: True, topk_p=torch.zeros(requests, topk)),
    )
    read = []
    draft.common_template(batch, buffer, lambda _, planned: read.append(planned.spec_info.kv_indices))
    return {
        "read": [indices.tolist() for indices in read],
        "behind": int((room[made.numel() :] != _NOBODYS).sum()),
        "entries": made.numel(),
    }


def offsets(
    batches: list[dict[str, Any]], environment: dict[str, str], *, topk: int, steps: int, context: int
) -> list[dict[str, Any]]:
    """Plan drafts one after the other; return what each step is planned from on the host, and the copies to it.

    A batch has ``lens``, then ``padding`` requests. Its sum of lengths is that of the lens or, if ``summed`` says so,
    of the padding too; its mirror is the ``true`` one, ``wrong``, ``none``, or ``shifted`` with the same sum.
    """
    os.environ.update(environment)
    most = max(len(batch["lens"]) + batch["padding"] for batch in batches)
    slots = torch.arange(most * context, dtype=torch.int32).view(most, context)
    pool = SimpleNamespace(req_to_token=slots)
    draft: Any = object.__new__(FlashInferMultiStepDraftBackend)

    def source(*_: Any, req_pool_indices: torch.Tensor, **__: Any) -> Any:
        return SimpleNamespace(
            ids=slots, row_ids=req_pool_indices, row_stride=context, entry_page_size=1, v2p=None
        )

    vars(draft).update(
        topk=topk,
        speculative_num_steps=steps,
        pool_len=context,
        page_size=1,
        generate_draft_decode_kv_indices=generate_draft_decode_kv_indices,
        kv_indptr=torch.zeros((steps, most * topk + 1), dtype=torch.int32),
        req_to_token_pool=pool,
        kv_index_translator=SimpleNamespace(read_source=source),
        draft_window_size=None,
        draft_sink_size=0,
    )
    buffer = torch.zeros((steps, most * topk * context), dtype=torch.int32)
    copy, copies = torch.Tensor.cpu, []
    given: list[Any] = []

    def noted(tensor: torch.Tensor) -> torch.Tensor:
        copies.append(tensor.shape)
        return copy(tensor)

    results = []
    for batch in batches:
        lens, padding = batch["lens"], batch["padding"]
        padded = torch.tensor([*lens, *[1] * padding])
        mirror = {"true": padded, "wrong": padded + 7, "none": None, "shifted": padded.flip(0)}[
            batch["mirror"]
        ]
        planned = SimpleNamespace(
            batch_size=len(padded),
            seq_lens=padded,
            seq_lens_cpu=mirror,
            seq_lens_sum=sum(lens) + padding * batch["summed"],
            req_pool_indices=torch.arange(len(padded)),
            req_to_token_pool=pool,
            kv_loc_plan=None,
            positions=torch.tensor([*lens, *[0] * padding]).repeat_interleave(topk),
            spec_info=SimpleNamespace(is_draft_input=lambda: True, topk_p=torch.zeros(len(lens), topk)),
        )
        copies.clear()
        given.clear()
        torch.Tensor.cpu = noted  # type: ignore[assignment, method-assign]
        try:
            draft.common_template(
                planned,
                buffer,
                lambda *_: given.append(flashinfer_backend.global_override_indptr_cpu.tolist()),
            )
        finally:
            torch.Tensor.cpu = copy  # type: ignore[method-assign]
        results.append({"offsets": given[:], "copies": len(copies)})
    return results
