"""What TRTLLM MHA plans for a forward: graphs that are captured and replayed, and eager batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.trtllm_mha_backend import (
    TRTLLMHAAttnBackend,
    TRTLLMHAAttnMultiStepDraftBackend,
)

from patchkit.backends.trtllm import fill_trtllm_mha

from . import attention_backends as backends
from . import repeatable

FIELDS = (
    "cache_seqlens_int32",
    "max_seq_len_q",
    "max_seq_len_k",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "page_table",
    "swa_page_table",
)


def _backend(server: dict[str, Any], step: int = 0) -> Any:
    runner = backends.model_runner(**server)
    with backends.OnCpu():
        return TRTLLMHAAttnBackend(runner, speculative_step_id=step)


@repeatable
def replays(session: dict[str, Any], route: str) -> dict[str, Any]:
    """Capture a graph of each size, then replay the batches one after the other on the same backend.

    ``route`` is what fills a replay's metadata: the tree's own method with the mirror (``tree``), without
    (``mirrorless``) or with one that an earlier batch left (``stale``), or ``fill``, patchkit's.
    """
    server, mode, graphs = session["server"], session["mode"], session["graphs"]
    backend = _backend(server, session["step"])
    stride = server["draft_tokens"] if mode in {"verify", "extend v1", "extend v2"} else 1

    def unnamed(bs: int) -> Any:
        spec = backends.spec_info(mode, accepted=[stride] * bs, stride=stride, on_host=False)
        if mode == "extend v2":
            spec.num_tokens_per_req = -1
        return spec

    made = backends.Graphs(backend, mode, graphs, tokens=stride, spec=unnamed, fields=FIELDS)
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, made.largest, batch)
        accepted = [*batch["accepted"], *[1] * (bs - len(batch["accepted"]))]
        spec = backends.spec_info(mode, accepted=accepted, stride=batch["stride"])
        reads = backends.HostReads()
        with reads:
            if route == "fill":
                fill_trtllm_mha(
                    backend, bs, state.rows, state.lens, forward_mode=backends.MODES[mode], spec_info=spec
                )
            else:
                backends.replay(
                    backend,
                    mode,
                    bs=bs,
                    rows=state.rows,
                    lens=state.lens,
                    lens_cpu=_mirror(state.lens_cpu, route),
                    total=state.total if route == "tree" else None,
                    spec=spec,
                )
        results.append(made.replayed(bs, backend.forward_metadata, reads))
    return {"captured": made.captured, "replayed": results, "fill_value": state.fill_value}


def _mirror(lens_cpu: torch.Tensor, route: str) -> torch.Tensor | None:
    return {"tree": lens_cpu, "stale": torch.ones_like(lens_cpu)}.get(route)


@repeatable
def eager(
    server: dict[str, Any], mode: str, batch: dict[str, Any], step: int = 0, mirror: bool = True
) -> dict[str, Any]:
    """Plan a batch without a graph."""
    backend = _backend(server, step)
    planned = backends.eager_batch(backend, server, mode, batch, mirror=mirror)
    reads = backends.HostReads()
    with backends.OnCpu(), reads:
        backend.init_forward_metadata(planned)
    return backends.fields_of(backend.forward_metadata, FIELDS) | {"host_reads": reads.count}


def viewed(server: dict[str, Any], lens: list[int]) -> dict[str, Any]:
    """Verify a batch without the mirror through the runner's own view; its buffer has what an earlier one left.

    Returns the lengths and each request's pages that the backend planned, and the pages that it has.
    """
    from sglang.srt.model_executor.cuda_graph_runner import build_replay_fb_view

    backend, stride, bs = _backend(server), server["draft_tokens"], len(lens)
    state = backends.GraphInputs(backend, bs, {"rows": list(range(1, bs + 1)), "lens": lens, "graph": bs})
    spec = backends.spec_info("verify", stride=stride)
    with backends.OnCpu():
        backend.init_cuda_graph_state(bs, bs * stride)
        empty = backends.GraphInputs(backend, bs)
        backends.capture(
            backend, "verify", bs=bs, num_tokens=bs * stride, rows=empty.rows, lens=empty.lens, spec=spec
        )
    buffers = SimpleNamespace(
        input_ids=torch.zeros(bs * stride, dtype=torch.int64),
        req_pool_indices=state.rows,
        seq_lens=state.lens,
        seq_lens_cpu=torch.ones_like(state.lens_cpu),
        encoder_lens=None,
    )
    batch = SimpleNamespace(
        forward_mode=backends.MODES["verify"], seq_lens_sum=None, seq_lens_cpu=None, spec_info=spec
    )
    view = build_replay_fb_view(
        batch,
        buffers,
        bs=bs,
        raw_bs=bs,
        num_tokens=bs * stride,
        seq_len_fill_value=1,
        capture_forward_mode=backends.MODES["verify"],
        is_encoder_decoder=False,
    )
    with backends.OnCpu():
        backend.init_forward_metadata_out_graph(view)
    page_size = server["page_size"]
    table, pages = backend.forward_metadata.page_table, [-(-(each + stride) // page_size) for each in lens]
    slots = backend.req_to_token[state.rows][:, ::page_size] // page_size
    return {
        "mirror": view.seq_lens_cpu is not None,
        "lens": backend.forward_metadata.cache_seqlens_int32.tolist(),
        "planned": [table[row, :count].tolist() for row, count in enumerate(pages)],
        "pages": [slots[row, :count].tolist() for row, count in enumerate(pages)],
    }


def overlap_hook(server: dict[str, Any], mode: str, batch: dict[str, Any]) -> Any:
    """Plan an eager batch, call the plan stream's hook, and return what changed and what the hook said.

    Also returns the buffers that the draft is asked to fill, and whether the backend reads the mirror.
    """
    backend = _backend(server)
    with backends.OnCpu():
        backend.init_forward_metadata(backends.eager_batch(backend, server, mode, batch))
    before = backends.fields_of(backend.forward_metadata, FIELDS)
    spec = backends.spec_info(mode, stride=server["draft_tokens"])
    flag = backend.update_verify_buffers_to_fill_after_draft(spec, len(batch["lens"]))
    after = backends.fields_of(backend.forward_metadata, FIELDS)
    return flag, before == after, backend.get_verify_buffers_to_fill_after_draft(), backend.needs_cpu_seq_lens


def flags() -> tuple[bool, bool]:
    """Return whether the backend and its draft read the mirror."""
    runner = backends.model_runner(context=64, page_size=16)
    draft = TRTLLMHAAttnMultiStepDraftBackend(runner, 1, 3)
    found = [getattr(made, "needs_cpu_seq_lens", True) for made in (draft.attn_backends[0], draft)]
    return found[0], found[1]
