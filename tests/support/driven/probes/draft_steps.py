"""What the steps of a multi-step TRTLLM draft plan, and how often the common template's kernel runs for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.attention.trtllm_mha_backend import TRTLLMHAAttnMultiStepDraftBackend
from sglang.srt.layers.attention.trtllm_mla_backend import TRTLLMMLAMultiStepDraftBackend

from . import attention_backends as backends
from . import repeatable, trtllm_mha, trtllm_mla

if TYPE_CHECKING:
    from collections.abc import Callable


class Launches:
    """A kernel that counts its launches before it does them."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self.count = 0

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        self.count += 1
        launch: Callable[..., Any] = self._kernel[grid]
        return launch


def _draft(kind: str, server: dict[str, Any]) -> tuple[Any, Launches]:
    made = {"mha": TRTLLMHAAttnMultiStepDraftBackend, "mla": TRTLLMMLAMultiStepDraftBackend}[kind]
    draft = made(backends.model_runner(mla=kind == "mla", **server), 1, server["steps"])
    draft.generate_draft_decode_kv_indices = Launches(draft.generate_draft_decode_kv_indices)
    return draft, draft.generate_draft_decode_kv_indices


def _fields(kind: str, metadata: Any) -> dict[str, Any]:
    return backends.fields_of(metadata, {"mha": trtllm_mha, "mla": trtllm_mla}[kind].FIELDS)


@repeatable
def replays(kind: str, session: dict[str, Any], mirror: bool) -> dict[str, Any]:
    """Capture a draft's graphs, then replay the batches, and return what each step's graph was given."""
    server, graphs = session["server"], session["graphs"]
    draft, launches = _draft(kind, server)
    largest = max(graphs)
    steps = draft.attn_backends[: server["steps"] - 1]
    with backends.OnCpu():
        draft.init_cuda_graph_state(largest, largest)
    for bs in sorted(graphs, reverse=True):
        prepare(draft, backends.GraphInputs(steps[0], largest), bs, in_capture=True)
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(steps[0], largest, batch)
        launches.count = 0
        reads = backends.HostReads()
        with reads:
            prepare(draft, state, bs, mirror=mirror)
        results.append(
            {
                "steps": [_fields(kind, step.decode_cuda_graph_metadata[bs]) for step in steps],
                "launches": launches.count,
                "host_reads": reads.count,
            }
        )
    return {"replayed": results}


def prepare(
    draft: Any,
    state: backends.GraphInputs,
    bs: int,
    *,
    mirror: bool = True,
    in_capture: bool = False,
    written: torch.Tensor | None = None,
) -> None:
    """Let a draft prepare a graph, through whichever methods the tree's drafts have."""
    batch = backends.forward_batch(
        "decode",
        batch_size=bs,
        positions=torch.zeros(bs, dtype=torch.int64),
        req_pool_indices=state.rows[:bs],
        seq_lens=state.lens[:bs],
        seq_lens_cpu=state.lens_cpu[:bs] if mirror else None,
        seq_lens_sum=state.total if mirror else None,
        req_to_token_pool=SimpleNamespace(req_to_token=draft.attn_backends[0].req_to_token),
        spec_info=backends.spec_info("draft decode"),
        out_cache_loc=written,
    )
    if not hasattr(draft, "init_forward_metadata_replay_cuda_graph"):
        draft.init_forward_metadata_out_graph(batch, in_capture=in_capture)
    elif in_capture:
        draft.init_forward_metadata_capture_cuda_graph(batch)
    else:
        draft.init_forward_metadata_replay_cuda_graph(batch, bs)


@repeatable
def eager(kind: str, server: dict[str, Any], batch: dict[str, Any], mirror: bool) -> dict[str, Any]:
    """Plan all steps of a draft without a graph."""
    draft, launches = _draft(kind, server)
    planned = backends.eager_batch(draft.attn_backends[0], server, "draft decode", batch, mirror=mirror)
    with backends.OnCpu():
        draft.init_forward_metadata(planned)
    held = {"mha": "forward_metadata", "mla": "forward_decode_metadata"}[kind]
    return {
        "steps": [_fields(kind, getattr(step, held)) for step in draft.attn_backends],
        "launches": launches.count,
        "indices": backends.plain(planned.spec_info.kv_indices),
    }
