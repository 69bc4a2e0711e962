"""Replays of captured graphs: the backend's arguments, the output, and what a capture computes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import torch
from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.model_executor import cuda_graph_runner
from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.speculative import eagle_draft_extend_cuda_graph_runner as draft_extend_module
from sglang.srt.speculative.eagle_draft_cuda_graph_runner import EAGLEDraftCudaGraphRunner
from sglang.srt.speculative.eagle_draft_extend_cuda_graph_runner import EAGLEDraftExtendCudaGraphRunner
from sglang.srt.speculative.multi_layer_eagle_draft_extend_cuda_graph_runner import (
    MultiLayerEagleDraftExtendCudaGraphRunner,
)
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from torch.utils._python_dispatch import TorchDispatchMode

from . import repeatable
from .recorders import DeviceTensor, on_device, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

CAPTURED = (1, 2, 4, 8)
STALE = 77
VOCABULARY = 32
_HANDED = (
    *("bs", "req_pool_indices", "seq_lens", "seq_lens_sum", "encoder_lens", "forward_mode", "spec_info"),
    "seq_lens_cpu",
)


class Backend:
    """Records the lengths that a replay passes to it, with either release's signature."""

    def __init__(self) -> None:
        self.handed: dict[str, Any] = {}

    def init_forward_metadata_replay_cuda_graph(self, *values: Any, **named: Any) -> None:
        """Record lengths passed as arguments."""
        self._note(dict(zip(_HANDED, values, strict=False)) | named)

    def init_forward_metadata_out_graph(self, view: Any, **_: Any) -> None:
        """Record lengths passed as a view of a forward batch."""
        self._note(vars(view) | {"bs": view.batch_size})

    def init_forward_metadata_capture_cuda_graph(self, *values: Any, **named: Any) -> None:
        """Capture nothing."""

    init_forward_metadata_in_graph = init_forward_metadata_capture_cuda_graph

    def _note(self, found: dict[str, Any]) -> None:
        self.handed = {
            name: plain(found[name]) for name in ("bs", "seq_lens", "seq_lens_sum", "seq_lens_cpu")
        }
        self.handed["mode"] = found["forward_mode"].name


def _buffers(size: int, tokens: int) -> SimpleNamespace:
    """Return a graph's buffers for ``tokens`` tokens a request, with stale values of an earlier replay."""
    rows, flat = size, size * tokens

    def stale(count: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.full((count,), STALE, dtype=dtype)

    return SimpleNamespace(
        **{name: stale(flat, torch.int64) for name in ("input_ids", "out_cache_loc", "positions")},
        req_pool_indices=stale(rows, torch.int64),
        **{
            name: stale(rows)
            for name in (
                *("seq_lens", "seq_lens_cpu", "num_correct_drafts"),
                *("num_accept_tokens", "extend_seq_lens", "extend_start_loc", "encoder_lens"),
                # The names of two of them in the oldest trees.
                *("num_accepted_drafts", "num_accepted_tokens"),
            )
        },
        hidden_states=torch.full((flat, 2), float(STALE)),
        topk_p=torch.full((rows, tokens), float(STALE)),
        topk_index=stale(rows * tokens, torch.int64).reshape(rows, tokens),
        rids_int=None,
        bootstrap_room_ids_int=None,
        mrope_positions=torch.zeros(3, flat, dtype=torch.int64),
        next_token_logits_buffer=torch.zeros(flat, 4),
        global_num_tokens_gpu=torch.zeros(1, dtype=torch.int32),
        global_num_tokens_for_logprob_gpu=torch.zeros(1, dtype=torch.int32),
        custom_mask=None,
    )


def _forward_batch(case: dict[str, Any], tokens: int, mode: ForwardMode) -> ForwardBatch:
    lens = case["lens"]
    count = len(lens)
    counted = case.get("counted", True)
    spec_info = SimpleNamespace(
        hidden_states=torch.arange(count * tokens * 2.0).reshape(count * tokens, 2),
        num_correct_drafts=on_device([1] * count, torch.int32) if counted else None,
        num_accept_tokens=on_device([2] * count, torch.int32),
        num_accepted_drafts=on_device([1] * count, torch.int32) if counted else None,
        num_accepted_tokens=on_device([2] * count, torch.int32),
        topk_p=torch.arange(count * tokens * 1.0).reshape(count, tokens),
        topk_index=torch.arange(count * tokens).reshape(count, tokens),
    )
    return ForwardBatch(
        forward_mode=mode,
        batch_size=count,
        input_ids=on_device(range(count * tokens)),
        req_pool_indices=on_device(range(10, count + 10)),
        seq_lens=on_device(lens, torch.int64 if case.get("wide") else torch.int32),
        out_cache_loc=on_device(range(100, count * tokens + 100)),
        seq_lens_sum=sum(lens) if case["sum"] else None,
        seq_lens_cpu=torch.tensor(lens, dtype=torch.int32) if case["mirror"] else None,
        positions=on_device(range(200, count * tokens + 200)),
        extend_seq_lens=on_device([tokens] * count, torch.int32) if case.get("extends", True) else None,
        extend_start_loc=on_device([at * tokens for at in range(count)], torch.int32),
        extend_seq_lens_cpu=[tokens] * count,
        global_num_tokens_cpu=[case.get("widest", count) * tokens],
        capture_hidden_mode=CaptureHiddenMode.NULL,
        spec_info=spec_info,
    )


def _fill_target(buffers: Any, forward_batch: ForwardBatch, raw: int, padded: int, fill_value: int) -> None:
    """Fill what a replay is given, with the mirror only where the batch has one."""
    if padded != raw:
        buffers.seq_lens.fill_(fill_value)
    buffers.seq_lens[:raw].copy_(forward_batch.seq_lens)
    mirror = forward_batch.seq_lens_cpu
    if mirror is not None:
        if padded != raw:
            buffers.seq_lens_cpu.fill_(fill_value)
        buffers.seq_lens_cpu[:raw].copy_(mirror)


def _settings(case: dict[str, Any], tokens: int) -> dict[str, Any]:
    return {
        "capture_bs": list(CAPTURED),
        "num_tokens_per_bs": tokens,
        "seq_len_fill_value": case.get("fill", 1),
        "require_mlp_tp_gather": "widest" in case,
        "require_gathered_buffer": False,
        "buffers": _buffers(CAPTURED[-1], tokens),
        "deepep_adapter": SimpleNamespace(replay=lambda: None, capture=lambda **_: None),
    }


def _model_runner() -> SimpleNamespace:
    return SimpleNamespace(
        spec_algorithm=SpeculativeAlgorithm.EAGLE,
        is_draft_worker=False,
        hisparse_coordinator=None,
        canary_manager=None,
        server_args=SimpleNamespace(enable_return_hidden_states=False),
    )


@repeatable
def target(case: dict[str, Any], tokens: int) -> dict[str, Any]:
    """Prepare the replay of a verify of ``tokens`` tokens a request; return what the backend is handed."""
    runner, backend = object.__new__(CudaGraphRunner), Backend()
    settings = _settings(case, tokens)
    buffers, fill_value = settings["buffers"], settings["seq_len_fill_value"]
    buffers.populate_from_forward_batch = lambda **given: _fill_target(
        buffers, given["forward_batch"], given["raw_bs"], given["bs"], fill_value
    )
    registry = SimpleNamespace(
        fill_from=lambda batch, **given: _fill_target(
            buffers, batch, given["raw_bs"], given["padded_bs"], fill_value
        )
    )
    vars(runner).update(
        settings,
        buffer_registry=registry,
        model_runner=_model_runner(),
        capture_hidden_mode=CaptureHiddenMode.NULL,
        capture_forward_mode=ForwardMode.TARGET_VERIFY,
        enable_two_batch_overlap=False,
        nsa_enable_prefill_cp=False,
        attn_backend=backend,
        enable_pdmux=False,
        is_encoder_decoder=False,
    )
    cuda_graph_runner.enable_num_token_non_padded = lambda *_: False
    forward_batch = _forward_batch(case, tokens, ForwardMode.TARGET_VERIFY)
    DeviceTensor.reads.clear()
    runner.replay_prepare(forward_batch)
    fields = {name: getattr(runner, name) for name in ("raw_bs", "raw_num_token", "bs")}
    return backend.handed | {"runner": fields, "reads": list(DeviceTensor.reads)}


def _output(case: dict[str, Any], rows: int) -> LogitsProcessorOutput:
    """Return what a graph left in its output, with top-k where it computes one."""
    out = LogitsProcessorOutput(
        next_token_logits=torch.arange(rows * 4.0).reshape(rows, 4), hidden_states=torch.zeros(rows, 2)
    )
    if case["topk"]:
        out.topk_p, out.topk_index = torch.ones(rows, 1), torch.arange(rows).reshape(rows, 1)
    return out


def _found(out: LogitsProcessorOutput) -> dict[str, Any]:
    return {
        name: plain(getattr(out, name, None)) for name in ("next_token_logits", "topk_p", "topk_index")
    } | {"hidden": len(out.hidden_states)}


def _held(buffers: SimpleNamespace) -> dict[str, Any]:
    """Return what a graph's buffers hold."""
    return {name: plain(value) for name, value in vars(buffers).items()}


@contextmanager
def _copies() -> Iterator[list[str]]:
    """Note each copy into a tensor, one by one or several together."""
    noted: list[str] = []

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = function.overloadpacket.__name__
            if name in {"copy_", "_foreach_copy_"}:
                noted.append(name)
            return function(*args, **(kwargs or {}))

    with Noting():
        yield noted


@repeatable
def draft(case: dict[str, Any], topk: int, disable: str = "") -> dict[str, Any]:
    """Replay a draft with ``topk`` branches; return what the buffers hold, what comes out, and the copies made."""
    os.environ["PATCHKIT_DISABLE"] = disable
    runner = object.__new__(EAGLEDraftCudaGraphRunner)
    settings = _settings(case, topk)
    buffers, steps = settings["buffers"], 3
    buffers.out_cache_loc = torch.full((CAPTURED[-1] * topk * steps,), STALE, dtype=torch.int64)
    buffers.hidden_states = torch.full((CAPTURED[-1], 2), float(STALE))
    handed: dict[str, Any] = {}

    def note(view: Any, *_: Any) -> None:
        handed.update(
            batch_size=view.batch_size, seq_lens=plain(view.seq_lens), rows=plain(view.req_pool_indices)
        )

    model_runner = _model_runner()
    model_runner.model_config = SimpleNamespace(vocab_size=1000)
    vars(runner).update(
        settings,
        speculative_num_steps=steps,
        model_runner=model_runner,
        draft_attn_backend=SimpleNamespace(
            init_forward_metadata_replay_cuda_graph=note, init_forward_metadata_out_graph=note
        ),
        output_buffers={size: tuple(torch.arange(size * 3).reshape(3, size, 1)) for size in CAPTURED},
        _replay=lambda _: None,
    )
    forward_batch = _forward_batch(case, topk, ForwardMode.DECODE)
    forward_batch.out_cache_loc = on_device(range(100, len(case["lens"]) * topk * steps + 100))
    forward_batch.spec_info.hidden_states = torch.arange(len(case["lens"]) * 2.0).reshape(-1, 2)
    DeviceTensor.reads.clear()
    with _copies() as copies:
        out = runner.replay(forward_batch)
    result = {
        "buffers": _held(buffers),
        "handed": handed,
        "out": plain(list(out)),
        "reads": list(DeviceTensor.reads),
    }
    return result | {"copies": copies}


def draft_extend_copies(case: dict[str, Any], tokens: int, disable: str = "") -> list[str]:
    """Replay a draft-extend of ``tokens`` tokens a request; return the copies made."""
    os.environ["PATCHKIT_DISABLE"] = disable
    with _copies() as copies:
        draft_extend(case, tokens, "DRAFT_EXTEND_V2")
    return copies


@repeatable
def draft_extend(case: dict[str, Any], tokens: int, mode: str) -> dict[str, Any]:
    """Replay a draft-extend of ``tokens`` tokens a request; return what is handed, the buffers and what comes out."""
    runner, backend = object.__new__(EAGLEDraftExtendCudaGraphRunner), Backend()
    settings = _settings(case, tokens)
    rows = 1 if mode == "DRAFT_EXTEND" else tokens
    vars(runner).update(
        settings,
        forward_mode=ForwardMode[mode],
        model_runner=_model_runner(),
        extend_seq_lens_cpu=[tokens] * CAPTURED[-1],
        draft_extend_attn_backend=backend,
        output_buffers={size: _output(case, size * rows) for size in CAPTURED},
        _replay=lambda _: None,
    )
    forward_batch = _forward_batch(case, tokens, ForwardMode[mode])
    DeviceTensor.reads.clear()
    out = runner.replay(forward_batch)
    result = {
        "out": _found(out),
        "bs_of_runner": [runner.raw_bs, runner.bs],
        "reads": list(DeviceTensor.reads),
    }
    return backend.handed | result | {"buffers": _held(runner.buffers)}


@repeatable
def multi_layer_draft_extend(case: dict[str, Any], tokens: int) -> dict[str, Any]:
    """Replay one layer's draft-extend; return what is handed and what comes out."""
    runner, backend = object.__new__(MultiLayerEagleDraftExtendCudaGraphRunner), Backend()
    settings = _settings(case, tokens)
    vars(runner).update(
        settings,
        step=1,
        forward_mode=ForwardMode.DRAFT_EXTEND_V2,
        model_runner=_model_runner(),
        eagle_worker=SimpleNamespace(draft_extend_attn_backend_list=[None, backend]),
        extend_seq_lens_cpu=[tokens] * CAPTURED[-1],
        output_buffers={size: _output(case, size * tokens) for size in CAPTURED},
        _replay=lambda _: None,
    )
    forward_batch = _forward_batch(case, tokens, ForwardMode.DRAFT_EXTEND_V2)
    forward_batch.original_global_num_tokens_cpu = [case.get("widest", 0)]
    DeviceTensor.reads.clear()
    out = runner.replay(forward_batch)
    reads = list(DeviceTensor.reads)
    return backend.handed | {"out": _found(out), "bs_of_runner": [runner.raw_bs, runner.bs], "reads": reads}


def capture(mode: str, topk: int) -> dict[str, Any]:
    """Capture a draft-extend of two requests; return how its top-k was computed, if it was."""
    calls: list[str] = []
    softmax, argmax = torch.softmax, torch.argmax

    def recorded(name: str, function: Any) -> Any:
        def call(*values: Any, **named: Any) -> Any:
            calls.append(name)
            return function(*values, **named)

        return call

    torch.softmax, torch.argmax = recorded("softmax", softmax), recorded("argmax", argmax)
    draft_extend_module.fast_topk = recorded("topk", lambda values, k, dim: torch.topk(values, k, dim=dim))
    draft_extend_module.set_dp_buffer_len = draft_extend_module.set_is_extend_in_batch = lambda *_: None
    runner = object.__new__(EAGLEDraftExtendCudaGraphRunner)
    rows = 2 if mode == "DRAFT_EXTEND" else 6
    logits = torch.arange(rows * 4.0).reshape(rows, 4)
    model = SimpleNamespace(
        forward=lambda *_: LogitsProcessorOutput(next_token_logits=logits, hidden_states=None)
    )
    model_runner = _model_runner()
    vars(model_runner).update(model=model, req_to_token_pool=None, token_to_kv_pool=None)
    vars(runner).update(
        _settings({}, 3),
        forward_mode=ForwardMode[mode],
        topk=topk,
        stream=None,
        model_runner=model_runner,
        require_attn_tp_gather=False,
        extend_seq_lens_cpu=[3] * CAPTURED[-1],
        padded_static_len=-1,
        draft_extend_attn_backend=Backend(),
        # Its target has no graphs, so that none has a tail.
        eagle_worker=SimpleNamespace(
            topk=topk, target_worker=SimpleNamespace(model_runner=SimpleNamespace(graph_runner=None))
        ),
        require_mlp_sync=False,
        enable_torch_compile=False,
        _create_graph=lambda: SimpleNamespace(pool=lambda: None),
        _capture_init=lambda _: None,
        _capture_graph=lambda _graph, _pool, _stream, run: run(),
    )
    _, out = runner.capture_one_batch_size(2, None)
    return {"calls": calls, "rows": len(out.topk_p) if hasattr(out, "topk_p") else None}


def logits_of_a_head(rows: int | None) -> dict[str, Any]:
    """Start the runner of a v2 draft-extend with a map of ``rows`` tokens; copy the logits of such a head."""
    for asked in ("gathered_buffer", "mlp_tp_gather", "mlp_sync", "attn_tp_gather"):
        setattr(draft_extend_module, f"require_{asked}", lambda *_: False)
    draft_extend_module.get_batch_sizes_to_capture = lambda *_: ([1, 2], [])
    EAGLEDraftExtendCudaGraphRunner.capture = lambda _: None
    model_runner = MagicMock(device="cpu", dtype=torch.float32, tp_size=1, dp_size=1)
    model_runner.server_args = MagicMock(
        enable_torch_compile=False, speculative_num_steps=2, speculative_eagle_topk=1
    )
    model_runner.server_args.speculative_num_draft_tokens = 3
    model_runner.model_config = SimpleNamespace(
        hf_config=SimpleNamespace(),
        vocab_size=VOCABULARY,
        hidden_size=8,
        spec_hidden_size=8,
        dtype=torch.float32,
    )
    backend = MagicMock()
    backend.get_cuda_graph_seq_len_fill_value.return_value = 1
    model_runner.attn_backend = backend
    worker = SimpleNamespace(
        draft_runner=model_runner,
        draft_extend_attn_backend=backend,
        speculative_algorithm=SpeculativeAlgorithm.EAGLE,
        eagle_use_aux_hidden_state=False,
        hot_token_id=None if rows is None else torch.arange(rows),
        target_worker=SimpleNamespace(model_runner=model_runner),
        model_config=model_runner.model_config,
    )
    buffer = EAGLEDraftExtendCudaGraphRunner(worker).buffers.next_token_logits_buffer
    buffer.copy_(torch.ones(len(buffer), VOCABULARY if rows is None else rows))
    return {"shape": list(buffer.shape), "dtype": str(buffer.dtype)}
