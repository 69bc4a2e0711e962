"""What later releases plan for batches without the mirror: graphs of prefills, context parallelism, shared pools."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import torch
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
from sglang.srt.layers.dcp import planner
from sglang.srt.model_executor.runner.prefill_cuda_graph_runner import PrefillCudaGraphRunner
from sglang.srt.models.deepseek_v2 import DeepseekV2ForCausalLM

from .recorders import DeviceTensor, on_device


class _Launches:
    """A kernel that records its launch arguments."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []

    def __getitem__(self, grid: Any) -> Any:
        return lambda *given: self.calls.append([_plain(each) for each in given])


def _plain(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return [str(value.dtype), value.as_subclass(torch.Tensor).tolist()]


def prefill_graph(lens: list[int], mirror: bool, *, full: bool) -> dict[str, Any]:
    """Return the lengths on the host that plan the replay of a prefill's graph, and the host's reads.

    ``full``: the graph of a whole prefill; by default a graph has breaks, in which attention is planned as without it.
    """
    planned: list[Any] = []

    def plan(view: Any) -> None:
        planned.append(None if view.seq_lens_cpu is None else view.seq_lens_cpu.tolist())

    slots = len(lens) + 1
    names = ("seq_lens", "req_pool_indices", "extend_seq_lens", "extend_prefix_lens")
    runner = object.__new__(PrefillCudaGraphRunner)
    vars(runner).update(
        _is_full_backend=full,
        _capture_req_slots=slots,
        _full_cg_seq_lens_cpu=torch.zeros(slots, dtype=torch.int64) if full else None,
        _prefill_static_buffers={name: torch.zeros(slots) for name in names},
        use_captured_attn_metadata=False,
        _capture_chunked_prefix=False,
        attn_metadata_buffers=None,
        model_runner=SimpleNamespace(
            # Later releases also take a snapshot for readers on other streams.
            attn_backend=Mock(
                init_forward_metadata=plan,
                init_forward_metadata_out_graph=plan,
                skips_prefill_metadata_on_idle_dp_rank=False,
            )
        ),
    )
    batch = SimpleNamespace(
        seq_lens=on_device(lens),
        seq_lens_cpu=torch.tensor(lens) if mirror else None,
        batch_size=len(lens),
    )
    static = SimpleNamespace(max_seq_len_override=None, input_ids=None)
    runner._prepare_forward_metadata_for_replay(batch, static, SimpleNamespace(size=64))
    return {"planned": planned, "reads": DeviceTensor.reads}


def context_parallel(prefixes: list[int], new: list[int], mirror: bool) -> dict[str, Any]:
    """Return what decode context parallelism gathers for a batch, and what its kernels are launched with."""
    planner.get_parallel = lambda: SimpleNamespace(dcp_enabled=True, dcp_size=2, dcp_rank=1)
    planner.get_device = lambda: SimpleNamespace(device="cpu")
    prefix_kernel, planner.create_dcp_kv_indices = _Launches(), _Launches()
    lens = [prefix + more for prefix, more in zip(prefixes, new, strict=True)]
    # What is allocated is filled by the kernels.
    planner.torch = SimpleNamespace(**vars(torch) | {"empty": torch.zeros})
    made = planner.prepare_decode_context_parallel_metadata(
        seq_lens=on_device(lens),
        extend_prefix_lens=on_device(prefixes, torch.int32),
        extend_prefix_lens_cpu=list(prefixes) if mirror else None,
        extend_seq_lens=on_device(new, torch.int32),
        req_pool_indices=torch.arange(len(lens)),
        req_to_token=torch.zeros((len(lens), 64), dtype=torch.int32),
        seq_lens_sum=sum(lens) if mirror else None,
        kv_buffer_shape=torch.Size((9, 1, 4)),
        kv_cache_dtype=torch.float32,
        kv_cache_device="cpu",
        create_chunked_prefix_cache_kv_indices_fn=prefix_kernel,
    )
    fields = {name: _plain(value) for name, value in vars(made).items()}
    launched = [prefix_kernel.calls, planner.create_dcp_kv_indices.calls]
    return fields | {"launched": launched, "reads": DeviceTensor.reads}


def without_context_parallelism(lens: list[int], tokens: int) -> dict[str, Any]:
    """Return what is gathered for the verify of a server that is started with defaults, and the host's reads.

    A verify has no lengths of an extend, and without the mirror no sum either; DeepSeek's models ask for every
    extend, and only the callee knows that there is nothing to do.
    """
    # Later releases have no widths before a server's groups exist; earlier ones ask for the group.
    planner.get_parallel = lambda: SimpleNamespace(dcp_enabled=False)
    asked = DeepseekV2ForCausalLM.prepare_context_parallel_metadata_for_dcp(
        SimpleNamespace(config=SimpleNamespace(architectures=["DeepseekV3ForCausalLM"])),
        seq_lens=on_device([each + tokens for each in lens]),
        extend_prefix_lens=None,
        extend_prefix_lens_cpu=None,
        extend_seq_lens=None,
        req_pool_indices=torch.arange(len(lens)),
        req_to_token=torch.zeros((len(lens), 64), dtype=torch.int32),
        seq_lens_sum=None,
        kv_buffer_shape=torch.Size((9, 1, 4)),
        kv_cache_dtype=torch.float32,
        kv_cache_device="cpu",
        create_chunked_prefix_cache_kv_indices_fn=_Launches(),
    )
    return {"gathered": asked, "reads": DeviceTensor.reads}


def shared_pool(lens: list[int], window: int, has_sum: bool, has_lens: bool) -> dict[str, Any]:
    """Return what a replay of Triton translates in a pool that layers share, and what the host reads."""
    count, inside = sum(lens), sum(min(each, window) for each in lens)
    backend = object.__new__(TritonAttnBackend)
    vars(backend).update(
        _translate_kv_loc=lambda slots: slots + 100,
        token_to_kv_pool=SimpleNamespace(translate_loc_from_full_to_swa=lambda slots: slots + 200),
        sliding_window_size=window,
        kv_indptr=on_device([0] * len(lens) + [count]),
        window_kv_indptr=on_device([0] * len(lens) + [inside]),
        cuda_graph_kv_indices=torch.zeros(count + 3, dtype=torch.int64),
        cuda_graph_window_kv_indices=torch.zeros(inside + 3, dtype=torch.int64),
        cuda_graph_out_cache_loc_full_physical=torch.zeros(len(lens) + 1, dtype=torch.int64),
    )
    batch = SimpleNamespace(
        seq_lens_sum=count if has_sum else None,
        seq_lens_cpu=torch.tensor(lens) if has_lens else None,
        out_cache_loc=torch.arange(len(lens)),
    )
    backend._translate_cuda_graph_shared_pool_locs(batch, len(lens))
    names = (
        "cuda_graph_kv_indices",
        "cuda_graph_window_kv_indices",
        "cuda_graph_out_cache_loc_full_physical",
    )
    return {name: getattr(backend, name).tolist() for name in names} | {"reads": DeviceTensor.reads}
