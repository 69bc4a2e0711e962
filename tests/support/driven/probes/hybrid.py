"""Backends that wrap others: their declaration about the mirror, their plan-stream hook, and what they pass on."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from sglang.srt.layers.attention.hybrid_linear_attn_backend import HybridLinearAttnBackend
from sglang.srt.layers.attention.tbo_backend import TboAttnBackend

from patchkit.runtime.overlap import require_overlap_hook

from . import attention_backends as backends
from . import trtllm_mha


def _backend(kind: str, server: dict[str, Any]) -> Any:
    if kind.startswith("linear "):
        return HybridLinearAttnBackend(
            backends.target(kind.removeprefix("linear "), server, None), SimpleNamespace(), [0]
        )
    if kind.startswith("two-batch "):
        sides = [backends.target(kind.removeprefix("two-batch "), server, None) for _ in range(3)]
        return TboAttnBackend(sides[0], sides[1:])
    return backends.target(kind, server, None)


def reads_mirror(kind: str, server: dict[str, Any]) -> bool | None:
    """Return whether a backend declares that it reads the mirror, None if it declares nothing."""
    flag: bool | None = getattr(_backend(kind, server), "needs_cpu_seq_lens", None)
    return flag


def starts(kind: str, server: dict[str, Any], plan_stream: bool) -> str | None:
    """Return why a server with this target backend does not start, None if it does."""
    try:
        require_overlap_hook(SimpleNamespace() if plan_stream else None, _backend(kind, server))
    except RuntimeError as error:
        return str(error)
    return None


def verify_side(server: dict[str, Any], attention_mode: str, graph: int) -> dict[str, Any]:
    """Return what a hybrid of TRTLLM MLA and MHA passes on in a verify; settings choose the verifying side.

    The mask is the full one: 32886, which does without it, is off.
    """
    os.environ["PATCHKIT_DISABLE"] = "32886"
    made = backends.target("mla/mha", server, None)
    made.model_runner.server_args.speculative_attention_mode = attention_mode
    with backends.OnCpu():
        made.init_cuda_graph_state(graph, graph * server["draft_tokens"])
    side = {"prefill": made.prefill_backend, "decode": made.decode_backend}[attention_mode]
    (mask, positions) = made.get_verify_buffers_to_fill_after_draft()
    (own_mask, own_positions) = side.get_verify_buffers_to_fill_after_draft()
    return {
        "mask": None if mask is None else mask.numel(),
        "own": mask is own_mask and positions is own_positions,
        "context": getattr(made, "max_context_len", None),
    }


def replays(session: dict[str, Any], mirror: bool) -> dict[str, Any]:
    """Replay through a hybrid of two TRTLLM MHA sides, and return what the side that verifies has planned."""
    server, mode, graphs = session["server"], session["mode"], session["graphs"]
    made = backends.target("mha/mha", server, None)
    stride = server["draft_tokens"] if mode == "verify" else 1
    largest = max(graphs)
    made.init_cuda_graph_state(largest, largest * stride)
    for bs in sorted(graphs, reverse=True):
        state = backends.GraphInputs(made.decode_backend, largest)
        spec = backends.spec_info(mode, stride=stride)
        backends.capture(
            made, mode, bs=bs, num_tokens=bs * stride, rows=state.rows, lens=state.lens, spec=spec
        )
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(made.decode_backend, largest, batch)
        spec = backends.spec_info(mode, stride=stride)
        reads = backends.reads_of_replay(
            made, mode, bs, state, spec, lens_cpu=state.lens_cpu if mirror else None
        )
        planned = backends.fields_of(made.decode_backend.forward_metadata, trtllm_mha.FIELDS)
        results.append(planned | {"host_reads": reads.count})
    return {"replayed": results, "idle_side": made.prefill_backend.forward_metadata is None}
