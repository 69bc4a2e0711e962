"""What backends of linear attention plan for a graph that the tree's own runner replays, and who keeps the mirror."""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import server_args as server_args_module
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.attention.hybrid_linear_attn_backend import (
    HybridLinearAttnBackend,
    Mamba2AttnBackend,
    MambaAttnBackendBase,
)
from sglang.srt.layers.attention.linear.gdn_backend import GDNAttnBackend
from sglang.srt.layers.attention.linear.kda_backend import KDAAttnBackend
from sglang.srt.layers.attention.linear.lightning_backend import LightningAttentionBackend
from sglang.srt.managers import overlap_utils
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardMode
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from patchkit.runtime.lengths import row_length
from patchkit.runtime.replays import padded_replay

from . import attention_backends as backends
from . import decisions, repeatable

LINEAR = {
    "gdn": GDNAttnBackend,
    "kda": KDAAttnBackend,
    "lightning": LightningAttentionBackend,
    "mamba2": Mamba2AttnBackend,
}
FIELDS = (
    "query_start_loc",
    "mamba_cache_indices",
    "retrieve_next_token",
    "retrieve_next_sibling",
    "retrieve_parent_token",
)
_SIZED = ("num_decodes", "num_prefills", "is_target_verify", "draft_token_num")
_REQUESTS = 24
# Of a padded request: what a backend of full attention has for it.
_FILL = 1


class _Full(AttentionBackend):
    """A backend of full attention that notes the mirror which a replay hands it."""

    def __init__(self, reads_mirror: bool | None = False) -> None:
        if reads_mirror is not None:
            self.needs_cpu_seq_lens = reads_mirror
        self.max_context_len = 200
        self.req_to_token = torch.zeros(_REQUESTS, 216, dtype=torch.int32)
        self.token_to_kv_pool = self.req_to_token_pool = None
        self.mirrors: list[Any] = []

    def init_forward_metadata_replay_cuda_graph(self, *values: Any, **named: Any) -> None:
        self.mirrors.append(named.get("seq_lens_cpu", values[-1]))

    def init_forward_metadata_out_graph(self, view: Any, in_capture: bool = False) -> None:
        if not in_capture:
            self.mirrors.append(view.seq_lens_cpu)

    def _nothing(self, *values: Any, **named: Any) -> None:
        pass

    init_forward_metadata = init_cuda_graph_state = _nothing
    init_forward_metadata_capture_cuda_graph = init_forward_metadata_in_graph = _nothing

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        return _FILL


def _pool(seed: int) -> Any:
    order = torch.randperm(_REQUESTS, generator=torch.Generator().manual_seed(seed)).to(torch.int32)
    made: Any = object.__new__(HybridReqToTokenPool)
    vars(made).update(size=_REQUESTS, req_index_to_mamba_index_mapping=order)
    return made


def linear(kind: str, seed: int = 0, topk: int = 1) -> Any:
    """Return a backend of linear attention as it plans; its kernels are nothing that a plan asks for."""
    made = object.__new__(LINEAR[kind])
    runner = SimpleNamespace(
        device="cpu",
        is_draft_worker=False,
        req_to_token_pool=_pool(seed),
        server_args=SimpleNamespace(speculative_eagle_topk=topk),
        token_to_kv_pool=None,
    )
    MambaAttnBackendBase.__init__(made, runner)
    made.mamba_chunk_size = 256
    return made


def _wrapped(kind: str, full: Any, **named: Any) -> Any:
    return HybridLinearAttnBackend(full, linear(kind, **named), [0])


def _runner_module() -> Any:
    """Return the module of the runner of decode graphs, wherever the tree has it."""
    try:
        return importlib.import_module("sglang.srt.model_executor.runner.decode_cuda_graph_runner")
    except ModuleNotFoundError:
        return importlib.import_module("sglang.srt.model_executor.cuda_graph_runner")


def _fill(buffers: Any, batch: Any, raw: int, padded: int) -> None:
    """Fill a graph's inputs as the runner does: the mirror only where the batch has one, the rows of padding never."""
    buffers.req_pool_indices[:raw].copy_(batch.req_pool_indices)
    for name in ("seq_lens", "seq_lens_cpu"):
        lens = getattr(batch, name)
        if lens is not None:
            if padded != raw:
                getattr(buffers, name).fill_(_FILL)
            getattr(buffers, name)[:raw].copy_(lens)


class _Graphs:
    """The tree's own runner over a backend, with graphs of some sizes."""

    def __init__(self, backend: Any, sizes: list[int], mode: ForwardMode, tokens: int) -> None:
        largest, flat = max(sizes), max(sizes) * tokens
        rows, tokens_of = (
            ("req_pool_indices", "seq_lens", "seq_lens_cpu"),
            ("input_ids", "out_cache_loc", "positions"),
        )
        self.buffers = SimpleNamespace(
            **{name: torch.ones(flat, dtype=torch.int64) for name in tokens_of},
            **{name: torch.ones(largest, dtype=torch.int64) for name in rows},
            custom_mask=None,
            encoder_lens=None,
        )
        self.buffers.populate_from_forward_batch = lambda **given: _fill(
            self.buffers, given["forward_batch"], given["raw_bs"], given["bs"]
        )
        module = _runner_module()
        module.enable_num_token_non_padded = lambda *_: False
        cls = getattr(module, "DecodeCudaGraphRunner", None) or module.CudaGraphRunner
        self.runner = object.__new__(cls)
        vars(self.runner).update(
            attn_backend=backend,
            buffer_registry=SimpleNamespace(
                fill_from=lambda batch, **given: _fill(
                    self.buffers, batch, given["raw_bs"], given["padded_bs"]
                )
            ),
            buffers=self.buffers,
            capture_bs=sorted(sizes),
            capture_forward_mode=mode,
            capture_hidden_mode=CaptureHiddenMode.NULL,
            deepep_adapter=SimpleNamespace(replay=lambda: None),
            enable_pdmux=False,
            enable_two_batch_overlap=False,
            is_encoder_decoder=False,
            model_runner=SimpleNamespace(
                canary_manager=None,
                hisparse_coordinator=None,
                is_draft_worker=False,
                server_args=SimpleNamespace(enable_return_hidden_states=False),
                spec_algorithm=SpeculativeAlgorithm.EAGLE,
            ),
            nsa_enable_prefill_cp=False,
            num_tokens_per_bs=tokens,
            recapture_if_needed=lambda _: None,
            require_gathered_buffer=False,
            require_mlp_tp_gather=True,
            seq_len_fill_value=_FILL,
            _resolve_lora_variant=lambda _: None,
            _make_graph_key=lambda *_: None,
        )
        self.prepare = getattr(self.runner, "load_batch", None) or self.runner.replay_prepare


def _spec(count: int, stride: int, topk: int, seed: int) -> Any:
    """Return a verify's input, with a tree where there are branches."""
    made = SimpleNamespace(draft_token_num=stride, topk=topk, custom_mask=None)
    made.num_tokens_per_req = stride
    draw = torch.Generator().manual_seed(seed)
    for name in ("retrieve_next_token", "retrieve_next_sibling"):
        setattr(made, name, torch.randint(-1, stride, (count, stride), generator=draw))
    return made


def _verify_mode(session: dict[str, Any]) -> tuple[ForwardMode, int]:
    if session["mode"] == "decode":
        return ForwardMode.DECODE, 1
    return ForwardMode.TARGET_VERIFY, session["server"]["draft_tokens"]


def _capture(wrapper: Any, mode: ForwardMode, sizes: list[int], tokens: int, spec: Any) -> dict[int, Any]:
    """Capture the largest graph first; return where each one's metadata is."""
    found = {}
    for bs in sorted(sizes, reverse=True):
        rows, lens = torch.zeros(bs, dtype=torch.int64), torch.ones(bs, dtype=torch.int64)
        if hasattr(wrapper, "init_forward_metadata_capture_cuda_graph"):
            wrapper.init_forward_metadata_capture_cuda_graph(bs, bs * tokens, rows, lens, None, mode, spec)
        else:
            view = SimpleNamespace(
                batch_size=bs, forward_mode=mode, req_pool_indices=rows, seq_lens=lens, seq_lens_cpu=lens,
                spec_info=spec,
            )  # fmt: skip
            wrapper.init_forward_metadata_out_graph(view, in_capture=True)
        found[bs] = backends.pointers(wrapper.linear_attn_backend.forward_metadata, FIELDS)
    return found


@repeatable
def replays(session: dict[str, Any], kind: str, mirror: bool, disable: str = "") -> list[dict[str, Any]]:
    """Replay batches one after the other in graphs that a runner of the tree's has, with the mirror or without it.

    ``disable`` names patches that are off.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    (mode, tokens), sizes = _verify_mode(session), session["graphs"]
    topk, seed = session["server"].get("topk", 1), session["server"]["seed"]
    full = _Full()
    wrapper = _wrapped(kind, full, seed=seed, topk=topk)
    wrapper.init_cuda_graph_state(max(sizes), max(sizes) * tokens)
    empty = SimpleNamespace(draft_token_num=tokens, topk=topk, retrieve_next_token=None)
    spec = None if session["mode"] == "decode" else empty
    captured = _capture(wrapper, mode, sizes, tokens, spec)
    graphs = _Graphs(wrapper, sizes, mode, tokens)
    results = []
    for turn, batch in enumerate(session["batches"]):
        lens = torch.tensor(batch["lens"], dtype=torch.int64)
        forward_batch = SimpleNamespace(
            batch_size=len(lens),
            capture_hidden_mode=CaptureHiddenMode.NULL,
            forward_mode=mode if len(lens) else ForwardMode.IDLE,
            global_num_tokens_cpu=[batch["graph"] * tokens],
            hidden_states=None,
            input_ids=torch.zeros(len(lens) * tokens, dtype=torch.int64),
            needs_forward_metadata_init=lambda: True,
            num_token_non_padded=None,
            out_cache_loc=None,
            req_pool_indices=torch.tensor(batch["rows"], dtype=torch.int64),
            seq_lens=lens,
            seq_lens_cpu=lens.clone() if mirror else None,
            seq_lens_sum=sum(batch["lens"]) if mirror else None,
            spec_info=None if spec is None else _spec(len(lens), tokens, topk, seed + turn),
        )
        reads = backends.HostReads()
        with reads:
            graphs.prepare(forward_batch)
        planned = wrapper.linear_attn_backend.forward_metadata
        bs = batch["graph"]
        results.append(
            {name: backends.plain(getattr(planned, name)) for name in FIELDS}
            | {name: getattr(planned, name, None) for name in _SIZED}
            | {
                "rows": graphs.buffers.req_pool_indices[:bs].tolist(),
                "in_place": backends.pointers(planned, FIELDS) == captured[bs],
                "handed_mirror": full.mirrors[-1] is not None,
                "host_reads": reads.count,
                "ran": [graphs.runner.raw_bs, graphs.runner.bs],
            }
        )
    return results


def halves(sizes: list[int], fills: list[int]) -> list[list[int]]:
    """Replay the two halves of a graph as two-batch overlap does; return what each takes for its requests."""
    results = []
    with padded_replay(sum(sizes), sum(sizes) - sum(fills)):
        for size, padded in zip(sizes, fills, strict=True):
            made = linear("gdn")
            made.init_cuda_graph_state(size, size)
            lens = torch.tensor([9] * (size - padded) + [_FILL] * padded)
            planned = made._replay_metadata(size, torch.arange(1, size + 1), ForwardMode.DECODE, None, lens)
            results.append(planned.query_start_loc.tolist())
    return results


def without_a_word(mirror: bool) -> list[int]:
    """Replay as a runner that does not publish its padding; return which rows count as requests."""
    made = linear("gdn")
    made.init_cuda_graph_state(3, 3)
    lens = torch.tensor([9, 9, _FILL]) if mirror else None
    planned = made._replay_metadata(3, torch.tensor([4, 5, 6]), ForwardMode.DECODE, None, lens)
    found: list[int] = planned.query_start_loc.tolist()
    return found


def unsaid(kind: str, mirror: bool, *, capture: bool = False) -> list[int]:
    """Plan a graph of three requests, one of them padding, as a runner that says nothing of padding has it planned.

    Returns what is taken for requests.
    """
    wrapper = _wrapped(kind, _Full())
    wrapper.init_cuda_graph_state(3, 3)
    rows, lens = torch.tensor([4, 5, 6]), torch.tensor([9, 9, _FILL])
    lens_cpu = lens.clone() if mirror else None
    if hasattr(wrapper, "init_forward_metadata_replay_cuda_graph"):
        given = (3, 3, rows, lens, None, ForwardMode.DECODE, None) if capture else (3, rows, lens, 19, None)
        if capture:
            wrapper.init_forward_metadata_capture_cuda_graph(*given)
        else:
            wrapper.init_forward_metadata_replay_cuda_graph(*given, ForwardMode.DECODE, None, lens_cpu)
    else:
        view = SimpleNamespace(
            batch_size=3, forward_mode=ForwardMode.DECODE, req_pool_indices=rows, seq_lens=lens,
            seq_lens_cpu=lens_cpu, spec_info=None,
        )  # fmt: skip
        wrapper.init_forward_metadata_out_graph(view, in_capture=capture)
    found: list[int] = wrapper.linear_attn_backend.forward_metadata.query_start_loc.tolist()
    return found


@repeatable
def eager(kind: str, mode: str, batch: dict[str, Any], mirror: bool, topk: int = 1) -> dict[str, Any]:
    """Plan a batch without a graph, through the backend that wraps both."""
    server_args_module._global_server_args = SimpleNamespace(mamba_cache_chunk_size=64)
    wrapper = _wrapped(kind, _Full(), topk=topk)
    server = {"draft_tokens": 4, "topk": topk}
    planned = backends.eager_batch(wrapper.full_attn_backend, server, mode, batch, mirror=mirror)
    if mode == "verify":
        planned.spec_info = _spec(len(batch["lens"]), 4, topk, 3)
    reads = backends.HostReads()
    with reads:
        wrapper.init_forward_metadata(planned)
    metadata = wrapper.linear_attn_backend.forward_metadata
    result = {name: backends.plain(getattr(metadata, name, None)) for name in FIELDS}
    if result["retrieve_parent_token"] is not None:
        # A kernel fills it.
        result["retrieve_parent_token"] = tuple(metadata.retrieve_parent_token.shape)
    return result | {"host_reads": reads.count}


def linked_after_the_draft(topk: int) -> dict[str, Any]:
    """Call the plan stream's hook beside Triton's; return a graph's links, which a verify of three requests has."""
    full = backends.target("triton", {"context": 64, "page_size": 1, "draft_tokens": 4, "topk": topk}, None)
    wrapper: Any = HybridLinearAttnBackend(full, linear("gdn", topk=topk), [0])
    with backends.OnCpu():
        wrapper.init_cuda_graph_state(4, 16)
    made = _spec(3, 4, topk, 5)
    for graph in (None, 4):
        wrapper.update_verify_buffers_to_fill_after_draft(made, graph)
        if graph is None and topk > 1:
            untouched = wrapper.linear_attn_backend.retrieve_next_token_list[3][:3].clone()
    kept = wrapper.linear_attn_backend
    names = ("retrieve_next_token", "retrieve_next_sibling")
    lists = [getattr(kept, f"{name}_list")[3][:3].tolist() for name in names] if topk > 1 else []
    return {
        "kept": lists,
        "made": [getattr(made, name).tolist() for name in names] if topk > 1 else [],
        "without_a_graph": topk > 1 and untouched.tolist() != lists[0],
    }


@repeatable
def keeps_mirror(linear: str, full: bool | None, disable: str = "", outer: str = "") -> dict[str, Any]:
    """Return what a wrapper says for its two, and what a server with it decides.

    ``full`` is what the backend of full attention declares. ``outer`` may be ``hybrid``: both sides are such wrappers.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    wrapper: Any = _wrapped(linear, _Full(full))
    flag = getattr(wrapper, "needs_cpu_seq_lens", None)
    if outer == "hybrid":
        module = importlib.import_module("sglang.srt.layers.attention.hybrid_attn_backend")
        other = _wrapped("gdn", _Full())
        runner = SimpleNamespace(
            server_args=SimpleNamespace(speculative_attention_mode="decode"),
            token_to_kv_pool=None,
            req_to_token_pool=None,
            kv_cache_dtype=torch.bfloat16,
        )
        wrapper = module.HybridAttnBackend(runner, other, wrapper)
    decides = hasattr(overlap_utils, "decide_needs_cpu_seq_lens")
    return {
        "says": flag,
        "kept": decisions.kept(wrapper, wrapper) if decides else None,
        "context": getattr(wrapper, "max_context_len", None),
        "row": row_length(wrapper) if decides else None,
    }
