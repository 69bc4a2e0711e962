"""What FlashAttention plans for a forward, in graphs and without, and who keeps the mirror."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.flashattention_backend import (
    FlashAttentionBackend,
    FlashAttentionMultiStepBackend,
)
from sglang.srt.speculative import eagle_worker_v2

from . import attention_backends as backends

FIELDS = (
    "cache_seqlens_int32",
    "max_seq_len_q",
    "max_seq_len_k",
    "cu_seqlens_q",
    "cu_seqlens_k",
    "page_table",
)
# What a buffer holds that nobody filled: no length of a batch.
STALE = 3


class Fork(FlashAttentionBackend):
    """A fork's subclass, which may override anything."""


def _runner(server: dict[str, Any], **more: Any) -> Any:
    runner = backends.model_runner(**server)
    runner.attn_cp_size = runner.tp_size = 1
    runner.attention_chunk_size = 64
    runner.is_hybrid_swa = False
    runner.token_to_kv_pool.swa_layer_nums = 1
    for name, value in {
        "is_local_attention_model": False,
        "hf_text_config": SimpleNamespace(num_attention_heads=backends.HEADS, attn_logit_softcapping=None),
        **more,
    }.items():
        setattr(runner.model_config, name, value)
    for name, default in {
        "kv_cache_dtype": "auto",
        "is_embedding": False,
        "disable_radix_cache": False,
        # What a plain decode's kernels plan is nothing that a CPU has.
        "enable_dp_attention": True,
    }.items():
        setattr(runner.server_args, name, default)
    return runner


def _backend(server: dict[str, Any], step: int = 0, **more: Any) -> Any:
    with backends.OnCpu():
        return FlashAttentionBackend(
            _runner(server, **more),
            speculative_step_id=step,
            topk=server.get("topk", 1),
            speculative_num_steps=server.get("steps", 3),
        )


def _disable(patches: str) -> None:
    os.environ["PATCHKIT_DISABLE"] = patches


def replays(session: dict[str, Any], mirror: str, disable: str = "") -> dict[str, Any]:
    """Capture a graph of each size, then replay the batches one after the other on the same backend.

    ``mirror`` says what a replay is handed for the host's lengths: the ``true`` ones, ``none``, or ``stale`` ones,
    as where a buffer was not filled. ``disable`` names patches that are off.
    """
    _disable(disable)
    server, mode, graphs = session["server"], session["mode"], session["graphs"]
    backend = _backend(server, session["step"])
    stride = server["draft_tokens"] if mode in {"verify", "extend v1", "extend v2"} else 1

    def full(bs: int) -> Any:
        return backends.spec_info(mode, accepted=[stride] * bs, stride=stride)

    made = backends.Graphs(backend, mode, graphs, tokens=stride, spec=full, fields=FIELDS)
    told = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, made.largest, batch)
        accepted = [*batch["accepted"], *[1] * (bs - len(batch["accepted"]))]
        spec = backends.spec_info(mode, accepted=accepted, stride=batch["stride"])
        lens = {"true": state.lens_cpu, "none": None, "stale": torch.full_like(state.lens_cpu, STALE)}
        reads = backends.reads_of_replay(backend, mode, bs, state, spec, lens_cpu=lens[mirror])
        told.append(made.replayed(bs, backend.forward_metadata, reads))
    return {"captured": made.captured, "replayed": told}


def eager(
    server: dict[str, Any], mode: str, batch: dict[str, Any], step: int = 0, mirror: bool = True
) -> dict[str, Any]:
    """Plan a batch without a graph; one without the mirror extends all requests alike, as a v2 draft-extend does."""
    backend = _backend(server, step)
    planned = backends.eager_batch(backend, server, mode, batch, mirror=mirror)
    if not mirror and planned.extend_seq_lens is not None:
        planned.extend_seq_lens_cpu = list(batch["accepted"])
    planned.encoder_lens = None
    reads = backends.HostReads()
    with backends.OnCpu(), reads:
        backend.init_forward_metadata(planned)
    planned_fields: dict[str, Any] = backends.fields_of(backend.forward_metadata, FIELDS)
    return planned_fields | {"host_reads": reads.count}


def made(kind: str, server: dict[str, Any]) -> Any:
    """Return a backend of a kind that its metadata depends on."""
    if kind == "top-k 4":
        return _backend(server | {"topk": 4})
    if kind == "latent":
        return _backend(server | {"mla": True})
    if kind == "window":
        return _backend(server | {"window": 16})
    if kind == "two pools":
        return _backend(server | {"swa": True})
    if kind == "local":
        return _backend(server, is_local_attention_model=True)
    if kind == "cross":
        return _backend(server, is_encoder_decoder=True)
    if kind == "fork":
        return Fork(_runner(server))
    backend = _backend(server)
    if kind == "version 4":
        backend.fa_impl_ver = 4
    return backend


def _made(kind: str) -> Any:
    return made(kind, {"context": 64, "page_size": 16})


def keeps_mirror(kinds: list[str], disable: str = "") -> dict[str, Any]:
    """Tell what each kind of backend says about itself, and what a draft of such steps says."""
    _disable(disable)
    said: dict[str, Any] = {kind: getattr(_made(kind), "needs_cpu_seq_lens", None) for kind in kinds}
    server: dict[str, Any] = {"context": 64, "page_size": 16}
    for topk, steps in ((1, 3), (4, 3), (1, 1)):
        with backends.OnCpu():
            draft = FlashAttentionMultiStepBackend(_runner(server | {"topk": topk}), topk, steps)
        said[f"draft of {steps} steps, top-k {topk}"] = getattr(draft, "needs_cpu_seq_lens", None)
    return said


def captures_draft_extend(kinds: list[str], *, cuda: bool, environment: dict[str, str]) -> dict[str, bool]:
    """Tell of each kind of draft-extend backend whether a v2 worker captures it in a graph."""
    os.environ.update(environment)
    eagle_worker_v2._is_cuda = cuda
    eagle_worker_v2._is_musa = eagle_worker_v2._is_hip = eagle_worker_v2._is_npu = False
    for name in ("EAGLEDraftCudaGraphRunner", "EAGLEDraftExtendCudaGraphRunner"):
        setattr(eagle_worker_v2, name, lambda worker: "graph")
    eagle_worker_v2.get_available_gpu_memory = lambda *_: 1.0
    said = {}
    for kind in kinds:
        worker = object.__new__(eagle_worker_v2.EagleDraftWorker)
        vars(worker).update(
            server_args=SimpleNamespace(
                disable_cuda_graph=False,
                model_impl="auto",
                decode_attention_backend=None,
                cuda_graph_config=None,
            ),
            speculative_num_steps=1,
            speculative_num_draft_tokens=2,
            device="cuda",
            gpu_id=0,
            target_worker=SimpleNamespace(device="cuda"),
            draft_attn_backend=None,
            draft_extend_attn_backend=backends.target("triton", {"context": 64, "page_size": 1}, None)
            if kind == "triton"
            else _made(kind),
        )
        worker.init_cuda_graphs()
        said[kind] = worker.cuda_graph_runner_for_draft_extend == "graph"
    return said
