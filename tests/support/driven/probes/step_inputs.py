"""Where a draft and its verify write, and their positions, the tree's own kernels interpreted."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.model_executor import forward_batch_info
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative import base_spec_worker, eagle_utils
from sglang.srt.speculative.eagle_info import EagleDraftInput, EagleVerifyInput
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import repeatable
from .decisions import bare
from .default_server import _off
from .verified import _COMMON, _FIRST

_POOL, _WIDTH = 8, 64
_SAYS, _FILLED = ("out_cache_loc", "positions"), ("input_ids", "positions")
_LATER = "sglang.srt.model_executor.runner.decode_cuda_graph_runner"
_GRAPHS: Any = (
    importlib.import_module(_LATER).DecodeCudaGraphRunner
    if importlib.util.find_spec(_LATER.rpartition(".")[0]) and importlib.util.find_spec(_LATER)
    else importlib.import_module("sglang.srt.model_executor.cuda_graph_runner").CudaGraphRunner
)


def _graphs(tokens: int) -> Any:
    """Return the tree's own runner of the target's graphs, which a verify's preparation fills without a plan."""

    def fill(batch: Any) -> None:
        made.raw_num_token = len(batch.input_ids)
        for name in _FILLED:
            getattr(made.buffers, name)[: made.raw_num_token].copy_(getattr(batch, name))

    made = _off(
        _GRAPHS,
        raw_num_token=0,
        bs=0,
        buffers=SimpleNamespace(**{name: torch.zeros(tokens, dtype=torch.int64) for name in _FILLED}),
        deepep_adapter=SimpleNamespace(replay=lambda: None),
        model_runner=SimpleNamespace(
            spec_algorithm=SpeculativeAlgorithm.EAGLE, is_draft_worker=False, device_timer=None
        ),
        captured_req_width=1,
        graphs={0: SimpleNamespace(replay=lambda: None)},
        output_buffers={0: LogitsProcessorOutput(next_token_logits=None)},
        can_run=lambda _: True,
        can_run_graph=lambda _: True,
        replay_prepare=fill,
        load_batch=fill,
        _resolve_lora_variant=lambda *_: None,
        _make_graph_key=lambda *_, **__: 0,
        _capture_graph_size=lambda **_: 0,
    )
    return made


def _replayed(graphs: Any, batch: Any) -> dict[str, list[int]]:
    """Replay a graph for a prepared batch by the tree's own function; return its tokens and positions."""
    if hasattr(_GRAPHS, "load_batch"):
        _GRAPHS.load_batch(graphs, batch)
    else:
        skips = "skip_attn_backend_init" in inspect.signature(_GRAPHS.replay).parameters
        _GRAPHS.replay(graphs, batch, **({"skip_attn_backend_init": True} if skips else {}))
    return {name: getattr(graphs.buffers, name)[: graphs.raw_num_token].tolist() for name in _FILLED}


def _init_new(batch: Any, runner: Any, **_: Any) -> Any:
    return SimpleNamespace(
        input_ids=batch.input_ids,
        out_cache_loc=batch.out_cache_loc,
        positions=batch.spec_info.positions,
        forward_mode=batch.forward_mode,
        spec_info=batch.spec_info,
        input_embeds=None,
        needs_forward_metadata_init=lambda: False,
        mark_forward_metadata_ready=lambda: None,
    )


@repeatable
def prepared(case: dict[str, Any], disable: str = "", *, plan_stream: bool = False) -> dict[str, Any]:
    """Prepare a draft of ``case["steps"]`` tokens and ``case["topk"]`` branches, then its verify of one token more.

    Returns where each writes, its positions, and what the replay of the verify's graph reads. With ``plan_stream`` the
    verify is prepared on another stream, for which nothing that the draft's stream computed is there yet.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    forward_batch_info.ForwardBatch.init_new = staticmethod(_init_new)
    for module in (_FIRST, eagle_utils):
        vars(module).setdefault("get_global_server_args", None)
    steps, topk, lens = case["steps"], case["topk"], case["lens"]
    order = torch.randperm(_POOL * _WIDTH, generator=torch.Generator().manual_seed(case["seed"]))
    pool = SimpleNamespace(req_to_token=order.to(torch.int32).view(_POOL, _WIDTH))
    settings = SimpleNamespace(
        speculative_num_draft_tokens=steps + 1, enable_mamba_extra_buffer=lambda: False
    )
    vars(_FIRST)["get_global_server_args"] = lambda: settings
    algorithm = SimpleNamespace(is_standalone=lambda: False)
    runner = SimpleNamespace(server_args=settings, spec_algorithm=algorithm)
    runner.graph_runner = runner.decode_cuda_graph_runner = _graphs(len(lens) * (steps + 1))
    drafts = torch.arange(len(lens) * (steps + 1))
    draft_input: Any = bare(EagleDraftInput)
    draft_input.positions = None
    batch = SimpleNamespace(
        seq_lens=torch.tensor(lens),
        req_pool_indices=torch.tensor(case["rows"]),
        input_ids=drafts,
        device="cpu",
        out_cache_loc=None,
        spec_info=draft_input,
        forward_mode=ForwardMode.DECODE,
        seq_lens_cpu=None,
        seq_lens_sum=None,
        model_config=SimpleNamespace(vocab_size=100),
        mamba_track_indices=None,
        reqs=[],
        req_to_token_pool=pool,
        token_to_kv_pool_allocator=SimpleNamespace(page_size=1),
    )
    if hasattr(EagleDraftInput, "prepare_for_v2_draft"):
        draft, _ = draft_input.prepare_for_v2_draft(pool, batch, None, runner, topk, steps)
    elif hasattr(_COMMON, "prepare_for_draft"):
        draft, _ = _COMMON.prepare_for_draft(draft_input, pool, batch, None, runner, topk, steps)
    else:
        worker: Any = bare(base_spec_worker.EagleDraftWorkerBase)
        draft, _ = worker.prepare_for_draft(draft_input, pool, batch, None, runner, topk, steps)
    result = {"draft": {name: getattr(draft, name).tolist() for name in _SAYS}}
    draft.positions.add_(1)
    result["lens"] = batch.seq_lens.tolist()
    verify_input: Any = bare(EagleVerifyInput)
    vars(verify_input).update(draft_token=drafts, draft_token_num=steps + 1, positions=drafts + 7, topk=topk)
    batch.spec_info = verify_input
    _interpreted()
    target = SimpleNamespace(model_runner=runner)
    stream: Any = torch.cpu.current_stream()
    if plan_stream:
        stream = torch.cpu.Stream()
        computed = draft.out_cache_loc.untyped_storage()
        torch.empty(0, dtype=torch.int64).set_(computed).zero_()
    with torch.cpu.stream(stream):
        if hasattr(verify_input, "prepare_for_v2_verify"):
            verify, _ = verify_input.prepare_for_v2_verify(pool, batch, target)
        else:
            _no_states()
            verify, _ = eagle_utils.eagle_prepare_for_verify(verify_input, pool, batch, target)
    result["verify"] = {name: getattr(verify, name).tolist() for name in _SAYS}
    result["graph"] = _replayed(runner.graph_runner, verify)
    return result


def _interpreted() -> None:
    """Let the verify's lookup launch its kernel, wherever the tree has it."""
    looking: Any = getattr(_FIRST, "assign_extend_cache_locs_func", None)
    if looking is None:
        kernels = ("sglang.srt.speculative.triton_ops", "sglang.kernels.ops.speculative")
        home = next(name for name in kernels if importlib.util.find_spec(name))
        looking = importlib.import_module(f"{home}.cache_locs").assign_extend_cache_locs_func
    sys.modules[looking.__module__]._is_cuda = True  # type: ignore[attr-defined]


def _no_states() -> None:
    from sglang.srt.speculative import spec_utils

    spec_utils.prepare_mamba_track_for_verify = lambda _: None
