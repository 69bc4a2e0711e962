"""What DeepSeek Sparse Attention, NSA in older trees, plans for a forward, in graphs and without."""

from __future__ import annotations

import importlib
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.distributed import parallel_state

from . import attention_backends as backends
from . import decisions, flash_attention, repeatable

TOPK = 64


def _module(newer: str, older: str) -> Any:
    try:
        found = importlib.import_module(f"sglang.srt.layers.attention.{newer}")
    except ModuleNotFoundError:
        found = importlib.import_module(f"sglang.srt.layers.attention.{older}")
    return found


_sparse = _module("dsa_backend", "nsa_backend")
_LETTERS = "dsa" if _sparse.__name__.endswith("dsa_backend") else "nsa"
_Backend: Any = getattr(_sparse, "DeepseekSparseAttnBackend", None) or _sparse.NativeSparseAttnBackend
_MultiStep: Any = (
    getattr(_sparse, "DeepseekSparseAttnMultiStepBackend", None) or _sparse.NativeSparseAttnMultiStepBackend
)
FIELDS = {
    "lens": "cache_seqlens_int32",
    "starts": "cu_seqlens_k",
    "rows": f"{_LETTERS}_seqlens_expanded",
    "row_lens": f"{_LETTERS}_cache_seqlens_int32",
    "row_starts": f"{_LETTERS}_cu_seqlens_k",
    "tokens": "page_table_1",
    "pages": "real_page_table",
}


class _Fork(_Backend):
    """A fork's subclass, which may override anything."""


def _expand(extends: torch.Tensor, lens: torch.Tensor, total: int, longest: int) -> torch.Tensor:
    """Do what the kernel of this name does, which asks for tensors of a GPU; the host reads nothing."""
    ends = torch.cumsum(extends, 0)
    tokens = torch.arange(total)
    owner = torch.searchsorted(ends, tokens, right=True)
    before = ends - extends
    expanded = (lens - extends + 1)[owner] + tokens - before[owner]
    return expanded.to(torch.int32)


_sparse.seqlens_expand_triton = _expand
# The kernel that copies it all at once needs a GPU; what it falls back to does not.
_sparse._USE_FUSED_METADATA_COPY = False
sys.modules["sglang.jit_kernel.fused_metadata_copy"] = None  # type: ignore[assignment]
_cuda: Any = torch.cuda
_cuda.get_device_capability = lambda *_: (9, 0)
_groups: Any = parallel_state
_groups._ATTN_CP = SimpleNamespace(world_size=1, rank_in_group=0)


def _runner(server: dict[str, Any]) -> Any:
    runner = backends.model_runner(mla=True, **server)
    runner.model_config.hf_config = SimpleNamespace(
        architectures=["DeepseekV32ForCausalLM"], index_topk=TOPK, index_head_dim=8, index_n_heads=2
    )
    setattr(runner.token_to_kv_pool, f"{_LETTERS}_kv_cache_store_fp8", False)
    runner.token_to_kv_pool.kv_cache_dim = 16
    for name, value in {
        f"{_LETTERS}_prefill_backend": "flashmla_sparse",
        f"{_LETTERS}_decode_backend": "flashmla_sparse",
        f"{_LETTERS}_topk_backend": "sgl-kernel",
        f"enable_{_LETTERS}_prefill_context_parallel": False,
    }.items():
        setattr(runner.server_args, name, value)
    runner.hisparse_coordinator = None
    return runner


def made(server: dict[str, Any]) -> Any:
    """Return a backend."""
    return _Backend(_runner(server))


def _disable(patches: str) -> None:
    os.environ["PATCHKIT_DISABLE"] = patches


def flags() -> tuple[Any, Any]:
    """Return what the backend and that of a draft's steps say of the mirror."""
    return getattr(_Backend, "needs_cpu_seq_lens", None), getattr(_MultiStep, "needs_cpu_seq_lens", None)


def keeps_mirror(disable: str = "") -> bool:
    """Return whether a server with these backends keeps the mirror."""
    _disable(disable)
    server = {"context": 64, "page_size": 64}
    return decisions.kept(_Backend(_runner(server)), _MultiStep(_runner(server), 1, 3))


def _fields(backend: Any) -> dict[str, Any]:
    values = {name: getattr(backend.forward_metadata, field) for name, field in FIELDS.items()}
    # Of a decode the rows are the requests, and not every path writes them down.
    return {name: None if value is None else value.tolist() for name, value in values.items()}


@repeatable
def replays(session: dict[str, Any], mirror: str, disable: str = "") -> list[dict[str, Any]]:
    """Capture a graph of each size, then replay the batches one after the other on the same backend.

    ``mirror`` is what a replay is handed for the host's lengths: the ``true`` ones, ``none``, or ``stale`` ones.
    """
    _disable(disable)
    server, mode = session["server"], session["mode"]
    stride = 1 if mode == "decode" else server["draft_tokens"]
    backend = _Backend(_runner(server))
    largest = max(session["graphs"])

    def full(bs: int) -> Any:
        return backends.spec_info(mode, accepted=[stride] * bs, stride=stride)

    made = backends.Graphs(
        backend, mode, session["graphs"], tokens=stride, spec=full, fields=tuple(FIELDS.values())
    )
    results = []
    for batch in session["batches"]:
        bs = batch["graph"]
        state = backends.GraphInputs(backend, largest, batch)
        accepted = [*batch["accepted"], *[stride] * (bs - len(batch["accepted"]))]
        spec = backends.spec_info(mode, accepted=accepted, stride=stride)
        lens = {"true": state.lens_cpu, "none": None, "stale": torch.full_like(state.lens_cpu, 3)}
        reads = backends.reads_of_replay(backend, mode, bs, state, spec, lens_cpu=lens[mirror])
        placed = made.replayed(bs, backend.forward_metadata, reads)
        results.append(_fields(backend) | {name: placed[name] for name in ("in_place", "host_reads")})
    return results


@repeatable
def eager(server: dict[str, Any], mode: str, batch: dict[str, Any], mirror: bool = True) -> dict[str, Any]:
    """Plan a batch without a graph; without the mirror it comes as a v2 worker makes it, with nothing on the host."""
    backend = _Backend(_runner(server))
    planned = backends.eager_batch(backend, server, mode, batch, mirror=mirror)
    backend.init_forward_metadata(planned)
    host = {
        "lens": planned.seq_lens_cpu.tolist(),
        "total": planned.seq_lens_sum,
        "extends": planned.extend_seq_lens_cpu,
        "prefixes": planned.extend_prefix_lens_cpu,
    }
    return _fields(backend) | host


def steps(
    server: dict[str, Any], graphs: list[int], batch: dict[str, Any], mirror: bool
) -> list[dict[str, Any]]:
    """Capture the graphs of a draft's steps, replay a batch, and return what each step has planned."""
    drafts = _MultiStep(_runner(server), server["topk"], server["steps"])
    largest = max(graphs)
    drafts.init_cuda_graph_state(largest, largest)
    for bs in graphs:
        state = backends.GraphInputs(drafts.attn_backends[0], largest)
        spec = backends.spec_info("draft decode")
        view = backends.graph_view("decode", bs, state.rows[:bs], state.lens[:bs], spec, num_tokens=bs)
        if hasattr(drafts, "init_forward_metadata_capture_cuda_graph"):
            drafts.init_forward_metadata_capture_cuda_graph(view)
        else:
            drafts.init_forward_metadata_out_graph(view, in_capture=True)
    bs = batch["graph"]
    state = backends.GraphInputs(drafts.attn_backends[0], largest, batch)
    view = backends.graph_view(
        "decode",
        bs,
        state.rows,
        state.lens,
        backends.spec_info("draft decode"),
        lens_cpu=state.lens_cpu if mirror else None,
        total=state.total if mirror else None,
        num_tokens=bs,
    )
    reads = backends.HostReads()
    with reads:
        if hasattr(drafts, "init_forward_metadata_replay_cuda_graph"):
            drafts.init_forward_metadata_replay_cuda_graph(view, bs)
        else:
            drafts.init_forward_metadata_out_graph(view)
    return [_fields(attn_backend) | {"host_reads": reads.count} for attn_backend in drafts.attn_backends]


def captures(*, topk: int = 1, cuda: bool = True, environment: dict[str, str]) -> dict[str, bool]:
    """Return whether a v2 worker captures the draft-extend of the backend and of a fork's in a graph."""
    server = {"context": 64, "page_size": 64, "topk": topk}
    extends = {"plain": _Backend(_runner(server)), "fork": _Fork(_runner(server))}
    return flash_attention.captures(extends, cuda=cuda, environment=environment)
