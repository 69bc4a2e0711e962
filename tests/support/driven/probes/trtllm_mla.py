"""What TRTLLM MLA plans for a forward, and the tree mask that it allocates for a verify."""

from __future__ import annotations

import os
from typing import Any

import torch
from sglang.srt.layers.attention.flashinfer_mla_backend import FlashInferMLAAttnBackend
from sglang.srt.layers.attention.trtllm_mla_backend import TRTLLMMLABackend, TRTLLMMLAMultiStepDraftBackend

from . import attention_backends as backends
from . import repeatable

FIELDS = (
    "block_kv_indices",
    "max_seq_len_k",
    "max_seq_len_q",
    "sum_seq_lens_q",
    "cu_seqlens_q",
    "seq_lens_q",
    "seq_lens_k",
)


def _backend(server: dict[str, Any], skip_prefill: bool = False, is_draft: bool = False) -> Any:
    runner = backends.model_runner(mla=True, **server)
    runner.is_draft_worker = is_draft
    return TRTLLMMLABackend(runner, skip_prefill=skip_prefill)


@repeatable
def replays(session: dict[str, Any], mirror: bool) -> dict[str, Any]:
    """Capture a graph of each size, then replay the batches one after the other on the same backend.

    Without the ``mirror`` a replay is handed neither the host's lengths nor their sum.
    """
    server, mode, graphs = session["server"], session["mode"], session["graphs"]
    backend = _backend(server)
    stride = 1 if mode == "decode" else server["draft_tokens"]

    def full(bs: int) -> Any:
        return backends.spec_info(mode, accepted=[stride] * bs, stride=stride, on_host=False)

    made = backends.Graphs(
        backend, mode, graphs, tokens=stride, spec=full, fields=FIELDS, held="forward_decode_metadata"
    )
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, made.largest, batch)
        spec = backends.spec_info(mode, accepted=batch["accepted"], stride=batch["stride"])
        reads = backends.reads_of_replay(
            backend, mode, bs, state, spec, lens_cpu=state.lens_cpu if mirror else None
        )
        metadata = backend.decode_cuda_graph_metadata[bs]
        table = {"table": backends.plain(backend.decode_cuda_graph_kv_indices)}
        results.append(made.replayed(bs, metadata, reads) | table)
    return {"captured": made.captured, "replayed": results}


@repeatable
def eager(server: dict[str, Any], mode: str, batch: dict[str, Any], mirror: bool) -> dict[str, Any]:
    """Plan a batch without a graph; without the mirror a draft-extend still has the list of its new tokens."""
    backend = _backend(server)
    planned = backends.eager_batch(backend, server, mode, batch, mirror=mirror)
    if mode.startswith("extend"):
        planned.extend_seq_lens_cpu = list(batch["accepted"])
    backend.init_forward_metadata(planned)
    if mode == "extend":
        names = ("max_seq_len", "cum_seq_lens", "seq_lens", "fallback_to_flashinfer_impl")
        return backends.fields_of(backend.forward_prefill_metadata, names)
    return backends.fields_of(backend.forward_decode_metadata, (*FIELDS, "batch_size"))


@repeatable
def tree_mask(
    server: dict[str, Any],
    skip_prefill: bool,
    max_bs: int,
    tokens_per_request: int,
    is_draft: bool = False,
    *,
    disable: str = "32886",
) -> Any:
    """Return what a verify's buffers are before and after the graph state: None, or type, size and values set.

    The mask is the full one: 32886, which does without it, is off unless ``disable`` names other patches.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    backend = _backend(server, skip_prefill, is_draft)
    before = backend.get_verify_buffers_to_fill_after_draft()
    with backends.OnCpu():
        backend.init_cuda_graph_state(max_bs, max_bs * tokens_per_request)
    after = backend.get_verify_buffers_to_fill_after_draft()
    again = backend.get_verify_buffers_to_fill_after_draft()
    # The draft fills it where the captured verify reads it.
    assert [one is other for one, other in zip(after, again, strict=True)] == [True] * len(after)
    return before, [_described(buffer) for buffer in after]


def _described(buffer: Any) -> Any:
    if isinstance(buffer, torch.Tensor):
        return str(buffer.dtype), tuple(buffer.shape), int(buffer.sum())
    return buffer


def flags() -> dict[str, bool | None]:
    """Return which backends say that they read the mirror, None for one that says nothing."""
    classes = (TRTLLMMLABackend, TRTLLMMLAMultiStepDraftBackend, FlashInferMLAAttnBackend)
    return {each.__name__: getattr(each, "needs_cpu_seq_lens", None) for each in classes}


def overlap_hook(server: dict[str, Any], batch: dict[str, Any]) -> Any:
    """Plan an eager verify, call the plan stream's hook, and return what it said and whether anything changed."""
    backend = _backend(server)
    backend.init_forward_metadata(backends.eager_batch(backend, server, "verify", batch))
    before = backends.fields_of(backend.forward_decode_metadata, FIELDS)
    spec = backends.spec_info("verify", stride=server["draft_tokens"])
    flag = backend.update_verify_buffers_to_fill_after_draft(spec, len(batch["lens"]))
    return flag, before == backends.fields_of(backend.forward_decode_metadata, FIELDS)
