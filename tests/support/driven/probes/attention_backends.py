"""Attention backends of the tree, built by their own constructors on the CPU, and called as graph runners do."""

from __future__ import annotations

import dataclasses
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt import server_args as server_args_module
from sglang.srt.configs.model_config import AttentionArch
from sglang.srt.distributed import parallel_state
from sglang.srt.layers.attention import (
    flashinfer_backend,
    flashinfer_mla_backend,
    trtllm_mha_backend,
    trtllm_mla_backend,
)
from sglang.srt.layers.attention.hybrid_attn_backend import HybridAttnBackend
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
from sglang.srt.mem_cache import swa_memory_pool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.speculative import eagle_info
from sglang.srt.speculative.eagle_info import EagleDraftInput, EagleVerifyInput
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEADS = 2
HEAD_DIM = 8
# A pool's row is longer than the context, by room for what a speculation writes ahead.
ROOM = 16

_COPIES = frozenset({"cpu", "numpy", "tolist"})

MODES = {
    "decode": ForwardMode.DECODE,
    "draft decode": ForwardMode.DECODE,
    "verify": ForwardMode.TARGET_VERIFY,
    "extend": ForwardMode.EXTEND,
    # Of speculative decoding v1, which later trees no longer have.
    "extend v1": getattr(ForwardMode, "DRAFT_EXTEND", None),
    "extend v2": ForwardMode.DRAFT_EXTEND_V2,
}


_KINDS = {
    "flashinfer mla": flashinfer_mla_backend.FlashInferMLAAttnBackend,
    "mha": trtllm_mha_backend.TRTLLMHAAttnBackend,
    "mla": trtllm_mla_backend.TRTLLMMLABackend,
    "triton": TritonAttnBackend,
}


class _Kernels:
    """Stand-in for FlashInfer's wrappers, whose plans need a GPU."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        pass


for _module in (flashinfer_backend, flashinfer_mla_backend):
    for _name in (
        "BatchDecodeWithPagedKVCacheWrapper",
        "BatchMLAPagedAttentionWrapper",
        "BatchPrefillWithPagedKVCacheWrapper",
        "BatchPrefillWithRaggedKVCacheWrapper",
    ):
        setattr(_module, _name, _Kernels)
    # Workspaces of hundreds of megabytes, which no metadata is in.
    _module.global_workspace_buffer = torch.empty(1, dtype=torch.uint8)
for _module in (trtllm_mha_backend, trtllm_mla_backend):
    _module.global_zero_init_workspace_buffer = torch.empty(1, dtype=torch.uint8)

# Graphs of a server with parallel ranks have padding of their own, in later trees.
flashinfer_backend._cuda_graph_capture_max_bs = lambda _, count: count
parallel_state._ATTN_TP = parallel_state._TP = SimpleNamespace(world_size=1, rank_in_group=0)


class OnCpu(TorchFunctionMode):
    """Allocates on the CPU what the tree would allocate on a GPU that it names."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == "cuda":
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


class _Scalars(TorchDispatchMode):
    """Counts scalar reads of tensors: `.item()`, `int()`, `bool()`, and shapes from a device scalar."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


class _Copies(TorchFunctionMode):
    """Counts whole tensors copied to the host, except by the kernels' interpreter."""

    count = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        by = str(sys._getframe(1).f_globals.get("__name__"))
        self.count += getattr(func, "__name__", "") in _COPIES and not by.startswith("triton.")
        return func(*args, **(kwargs or {}))


class HostReads:
    """Counts reads of tensors by the host: on a GPU the host would wait for each."""

    def __init__(self) -> None:
        self._modes = _Scalars(), _Copies()

    @property
    def count(self) -> int:
        """Return the number of reads."""
        return sum(mode.count for mode in self._modes)

    def __enter__(self) -> None:
        for mode in self._modes:
            mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)


def slots(requests: int, width: int, page_size: int, seed: int) -> torch.Tensor:
    """Return each request's slots (int32, [requests, width]): whole pages, scattered over the pool."""
    pages = -(-width // page_size)
    order = torch.randperm(requests * pages, generator=torch.Generator().manual_seed(seed))
    first = (order.reshape(requests, pages, 1) + 1) * page_size
    return (first + torch.arange(page_size)).flatten(1)[:, :width].to(torch.int32)


def _sliding_window_pool(size: int, seed: int) -> Any:
    """Return a pool whose slots have counterparts in a smaller one; the last one has none, as upstream's."""
    pool = object.__new__(SWAKVPool)
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    pool.full_to_swa_index_mapping = torch.cat([order, torch.tensor([-1])])
    return pool


def model_runner(
    *,
    context: int,
    page_size: int,
    seed: int = 0,
    requests: int = 24,
    draft_tokens: int | None = 4,
    steps: int = 3,
    topk: int = 1,
    swa: bool = False,
    window: int | None = None,
    mla: bool = False,
) -> Any:
    """Return a model runner with the attributes that backends read."""
    server_args = SimpleNamespace(
        chunked_prefill_size=8192,
        cuda_graph_config=None,
        disable_chunked_prefix_cache=False,
        disable_cuda_graph=False,
        disable_piecewise_cuda_graph=True,
        disaggregation_mode="null",
        dllm_algorithm=None,
        enable_deterministic_inference=False,
        enable_mis=False,
        enable_two_batch_overlap=False,
        flashinfer_mla_disable_ragged=False,
        page_size=page_size,
        speculative_algorithm="EAGLE",
        speculative_attention_mode="decode",
        speculative_eagle_topk=topk,
        speculative_num_draft_tokens=draft_tokens,
        speculative_num_steps=steps,
        triton_attention_num_kv_splits=4,
        triton_attention_split_tile_size=None,
    )
    server_args_module._global_server_args = server_args
    req_to_token = slots(requests, context + ROOM, page_size, seed)
    size = int(req_to_token.max()) + page_size
    values = torch.zeros(1, HEADS, HEAD_DIM)
    pool: Any = SimpleNamespace(get_value_buffer=lambda layer: values)
    allocator: Any = SimpleNamespace(get_kvcache=lambda: pool)
    if swa:
        pool = _sliding_window_pool(size, seed)
        pool.get_value_buffer = lambda layer: values
        # Where the class is elsewhere, backends ask the pool.
        known = getattr(swa_memory_pool, "SWATokenToKVPoolAllocator", None)
        if known is not None:
            allocator = object.__new__(known)
            allocator._kvcache = pool
    config = SimpleNamespace(
        attention_arch=AttentionArch.MLA if mla else AttentionArch.MHA,
        context_len=context,
        get_num_kv_heads=lambda tp_size: HEADS,
        head_dim=HEAD_DIM,
        hf_config=SimpleNamespace(architectures=["LlamaForCausalLM"]),
        hidden_size=HEADS * HEAD_DIM,
        is_encoder_decoder=False,
        is_multimodal=False,
        kv_lora_rank=HEAD_DIM,
        num_attention_heads=HEADS,
        qk_nope_head_dim=HEAD_DIM,
        qk_rope_head_dim=HEAD_DIM,
        scaling=1.0,
        swa_v_head_dim=HEAD_DIM,
        v_head_dim=HEAD_DIM,
    )
    return SimpleNamespace(
        device="cpu",
        dtype=torch.bfloat16,
        gpu_id=0,
        hybrid_gdn_config=None,
        is_draft_worker=False,
        kimi_linear_config=None,
        kv_cache_dtype=torch.bfloat16,
        linear_attn_model_spec=None,
        model_config=config,
        page_size=page_size,
        req_to_token_pool=SimpleNamespace(size=requests, req_to_token=req_to_token),
        server_args=server_args,
        sliding_window_size=window,
        spec_algorithm=SpeculativeAlgorithm.EAGLE,
        token_to_kv_pool=pool,
        token_to_kv_pool_allocator=allocator,
    )


def target(kind: str, server: dict[str, Any], graph: int | None) -> Any:
    """Return a target backend, with the state of graphs of up to ``graph`` requests where it has graphs.

    A hybrid is ``prefill/decode``, of which the decode side verifies.
    """
    if "/" in kind:
        sides = [target(side, server, None) for side in kind.split("/")]
        made: Any = HybridAttnBackend(model_runner(**server), *sides)
    else:
        made = _KINDS[kind](model_runner(mla="mla" in kind, **server))
    if graph is not None:
        with OnCpu():
            made.init_cuda_graph_state(graph, graph * server["draft_tokens"])
    return made


def attended(backend: Any, size: int, metadata: str) -> list[torch.Tensor]:
    """Return the slots to which each request of a graph of ``size`` attends, from the memory that its kernels read.

    ``metadata`` names what FlashAttention-3 has planned for graphs of that mode.
    """
    if isinstance(backend, TritonAttnBackend):
        starts, slots = backend.kv_indptr, backend.cuda_graph_kv_indices
        return [slots[starts[row] : starts[row + 1]] for row in range(size)]
    plan = getattr(backend, metadata)[size]
    return [plan.page_table[row, : plan.cache_seqlens_int32[row]] for row in range(size)]


class GraphInputs:
    """The runners' input buffers for graphs of up to ``largest`` requests.

    A batch's ``rows`` and ``lens`` come first, then the padding of its ``graph``; after it come rows and
    lengths of an earlier, larger batch, which nothing may read. Without a batch everything is padding, as at
    capture.
    """

    def __init__(self, backend: Any, largest: int, batch: dict[str, Any] | None = None) -> None:
        self.fill_value = backend.get_cuda_graph_seq_len_fill_value()
        batch = batch or {"rows": [], "lens": [], "graph": largest}
        padding, behind = batch["graph"] - len(batch["lens"]), largest - batch["graph"]
        lens = [*batch["lens"], *[self.fill_value] * padding, *[backend.max_context_len - 1] * behind]
        self.rows = torch.tensor([*batch["rows"], *[0] * padding, *[1] * behind], dtype=torch.int64)
        self.lens = torch.tensor(lens, dtype=batch.get("dtype", torch.int32))
        self.lens_cpu = torch.tensor(lens, dtype=torch.int32)
        self.total = sum(lens[: batch["graph"]])


def eager_batch(
    backend: Any, server: dict[str, Any], mode: str, batch: dict[str, Any], *, mirror: bool = True
) -> Any:
    """Return the ForwardBatch of an eager forward, with or without what mirrors its lengths on the host.

    ``lens`` are the lengths that the batch comes with: in an extend those after it, of which ``accepted`` are new.
    """
    lens, count = batch["lens"], len(batch["lens"])
    tokens = server["draft_tokens"] * count if mode == "verify" else sum(batch["accepted"])
    fields: dict[str, Any] = {}
    if mode.startswith("extend"):
        prefixes = [length - new for length, new in zip(lens, batch["accepted"], strict=True)]
        fields = {
            "extend_num_tokens": tokens,
            "extend_seq_lens": torch.tensor(batch["accepted"], dtype=torch.int32),
            "extend_prefix_lens": torch.tensor(prefixes, dtype=torch.int32),
            "extend_seq_lens_cpu": list(batch["accepted"]) if mirror else None,
            "extend_prefix_lens_cpu": prefixes if mirror else None,
        }
    return forward_batch(
        mode,
        batch_size=count,
        input_ids=torch.zeros(tokens, dtype=torch.int64),
        # A draft has a branch for each of its top candidates.
        positions=torch.tensor(lens, dtype=torch.int64).repeat_interleave(server.get("topk", 1)),
        req_pool_indices=torch.tensor(batch["rows"], dtype=torch.int64),
        seq_lens=torch.tensor(lens, dtype=batch.get("dtype", torch.int64)),
        seq_lens_cpu=torch.tensor(lens, dtype=torch.int64) if mirror else None,
        seq_lens_sum=sum(lens) if mirror else None,
        req_to_token_pool=SimpleNamespace(req_to_token=backend.req_to_token),
        spec_info=spec_info(
            mode, accepted=batch["accepted"], stride=server["draft_tokens"] or -1, topk=server.get("topk", 1)
        ),
        **fields,
    )


def spec_info(
    mode: str, *, accepted: Sequence[int] = (), stride: int = -1, on_host: bool = True, topk: int = 1
) -> Any:
    """Return the spec info of a batch of ``mode``, None for a plain one.

    ``accepted`` and, where the worker knows it, ``stride`` are those of a draft-extend.
    """
    if mode in {"decode", "extend"}:
        return None
    if mode == "verify":
        empty = torch.empty(0)
        return EagleVerifyInput(
            **{field.name: empty for field in dataclasses.fields(EagleVerifyInput) if _is_required(field)}
            | {"spec_steps": stride - 1, "topk": topk, "draft_token_num": stride, "custom_mask": None}
        )
    if mode == "draft decode":
        return EagleDraftInput()
    counts = torch.tensor(accepted, dtype=torch.int32)
    if mode == "extend v2":
        made: Any = EagleDraftInput()
    else:
        made = eagle_info.EagleDraftExtendInput(num_accept_tokens_cpu=list(accepted) if on_host else None)
    made.num_accept_tokens = counts
    made.num_correct_drafts = counts - 1
    made.num_tokens_per_req = stride
    return made


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def forward_batch(mode: str, **fields: Any) -> Any:
    """Return a real ForwardBatch, without fields that the tree's class lacks."""
    known = {field.name for field in dataclasses.fields(ForwardBatch)}
    required = {field.name: None for field in dataclasses.fields(ForwardBatch) if _is_required(field)}
    given = {name: value for name, value in fields.items() if name in known}
    return ForwardBatch(**required | {"forward_mode": MODES[mode]} | given)


def capture(
    backend: Any,
    mode: str,
    *,
    bs: int,
    num_tokens: int,
    rows: torch.Tensor,
    lens: torch.Tensor,
    spec: Any,
    total: int | None = None,
) -> None:
    """Prepare a backend for the capture of a graph, by whichever methods the tree's backends have."""
    if hasattr(backend, "init_forward_metadata_capture_cuda_graph"):
        backend.init_forward_metadata_capture_cuda_graph(
            bs, num_tokens, rows[:bs], lens[:bs], None, MODES[mode], spec
        )
    else:
        backend.init_forward_metadata_out_graph(
            graph_view(mode, bs, rows[:bs], lens[:bs], spec, num_tokens=num_tokens, total=total),
            in_capture=True,
        )


def replay(
    backend: Any,
    mode: str,
    *,
    bs: int,
    rows: torch.Tensor,
    lens: torch.Tensor,
    lens_cpu: torch.Tensor | None,
    total: int | None,
    spec: Any,
    written: torch.Tensor | None = None,
) -> None:
    """Prepare a backend for the replay of a graph of ``bs`` requests, with or without the host mirror.

    ``written`` are the slots that the batch writes, for backends that read them.
    """
    if hasattr(backend, "init_forward_metadata_replay_cuda_graph"):
        more = {} if written is None else {"out_cache_loc": written}
        backend.init_forward_metadata_replay_cuda_graph(
            bs, rows, lens, total, None, MODES[mode], spec, seq_lens_cpu=lens_cpu, **more
        )
    else:
        backend.init_forward_metadata_out_graph(
            graph_view(mode, bs, rows, lens, spec, lens_cpu=lens_cpu, total=total, written=written)
        )


def reads_of_replay(
    backend: Any,
    mode: str,
    bs: int,
    state: GraphInputs,
    spec: Any,
    *,
    lens_cpu: torch.Tensor | None,
    written: torch.Tensor | None = None,
) -> HostReads:
    """Replay a graph from its input buffers, and return what the host read; the sum is given if ``lens_cpu`` is."""
    reads = HostReads()
    with reads:
        replay(
            backend,
            mode,
            bs=bs,
            rows=state.rows,
            lens=state.lens,
            lens_cpu=lens_cpu,
            total=None if lens_cpu is None else state.total,
            spec=spec,
            written=written,
        )
    return reads


def graph_view(
    mode: str,
    bs: int,
    rows: torch.Tensor,
    lens: torch.Tensor,
    spec: Any,
    *,
    lens_cpu: torch.Tensor | None = None,
    total: int | None = None,
    num_tokens: int = 0,
    written: torch.Tensor | None = None,
) -> Any:
    """Return a graph's buffers as the runners pass them to a backend."""
    return SimpleNamespace(
        batch_size=bs,
        forward_mode=MODES[mode],
        actual_forward_mode=MODES[mode],
        input_ids=torch.zeros(num_tokens, dtype=torch.int64),
        positions=torch.zeros(num_tokens, dtype=torch.int64),
        req_pool_indices=rows,
        seq_lens=lens,
        seq_lens_sum=total,
        seq_lens_cpu=lens_cpu,
        encoder_lens=None,
        out_cache_loc=written,
        spec_info=spec,
    )


def plain(value: Any) -> Any:
    """Return a tensor as its type and numbers, anything else as it is."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    return value


def fields_of(metadata: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the named fields of a backend's metadata as plain Python."""
    return {name: plain(getattr(metadata, name)) for name in names}


def pointers(metadata: Any, names: Sequence[str]) -> dict[str, int]:
    """Return where the tensors among the named fields are: a captured graph reads nowhere else."""
    found = {name: getattr(metadata, name) for name in names}
    return {name: value.data_ptr() for name, value in found.items() if isinstance(value, torch.Tensor)}


class Graphs:
    """A backend's graphs of several sizes, captured as the runners do: the largest first."""

    def __init__(
        self,
        backend: Any,
        mode: str,
        sizes: Sequence[int],
        *,
        tokens: int,
        spec: Callable[[int], Any],
        fields: Sequence[str],
        held: str = "forward_metadata",
    ) -> None:
        """Capture them with ``tokens`` a request; ``fields`` of what the backend has as ``held`` are what counts."""
        self.largest = max(sizes)
        self._fields = fields
        self.captured: dict[int, dict[str, Any]] = {}
        self._pointers: dict[int, dict[str, int]] = {}
        with OnCpu():
            backend.init_cuda_graph_state(self.largest, self.largest * tokens)
        for bs in sorted(sizes, reverse=True):
            state = GraphInputs(backend, self.largest)
            capture(
                backend, mode, bs=bs, num_tokens=bs * tokens, rows=state.rows, lens=state.lens, spec=spec(bs)
            )
            metadata = getattr(backend, held)
            self.captured[bs] = fields_of(metadata, fields)
            self._pointers[bs] = pointers(metadata, fields)

    def replayed(self, bs: int, metadata: Any, reads: HostReads) -> dict[str, Any]:
        """Return what a replay planned, whether where the capture did, and how often the host waited."""
        in_place = pointers(metadata, self._fields) == self._pointers[bs]
        return fields_of(metadata, self._fields) | {"in_place": in_place, "host_reads": reads.count}
