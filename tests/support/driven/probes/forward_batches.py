"""Forward batches: made from a scheduler's batch, padded, and prepared for a verify or a draft-extend."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.managers import schedule_batch
from sglang.srt.model_executor import forward_batch_info
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.speculative import eagle_info_v2
from sglang.srt.speculative.eagle_info import EagleDraftInput, EagleVerifyInput
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import repeatable
from .batches import Request
from .lengths import set_server
from .recorders import DeviceTensor, PretendedCuda, on_device, plain

BATCH = getattr(schedule_batch, "ModelWorkerBatch", schedule_batch.ScheduleBatch)


class Backend:
    """Writes down for which forward batches it is asked to plan."""

    def __init__(self, fill_value: int = 1) -> None:
        self.planned: list[dict[str, Any]] = []
        self.fill_value = fill_value

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Note the batch as it is now."""
        self.planned.append(described(forward_batch))

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """Return the length of requests that pad a batch."""
        return self.fill_value


def _serve(**settings: Any) -> None:
    """Set the global settings, for a server of one process."""
    set_server(**settings)
    forward_batch_info.enable_num_token_non_padded = lambda *_: False


def runner(*, mrope: bool = False, backend: Backend | None = None, standalone: bool = False) -> Any:
    """Return what of a model runner makes a forward batch."""
    return SimpleNamespace(
        device="cpu",
        server_args=SimpleNamespace(attention_backend="triton", enable_lora=False),
        use_ngram_embedding=False,
        model_is_mrope=mrope,
        is_hybrid_swa=False,
        req_to_token_pool=None,
        token_to_kv_pool=None,
        attn_backend=backend or Backend(),
        spec_algorithm=SpeculativeAlgorithm.STANDALONE if standalone else SpeculativeAlgorithm.EAGLE,
        graph_runner=None,
    )


def make_batch(case: dict[str, Any]) -> Any:
    """Return a batch with the lengths, mirror and extend lengths that are described."""
    lens, count = case["lens"], len(case["lens"])
    extend, prefix = case.get("extend"), case.get("prefix")
    if case.get("on_device") and extend is not None:
        extend, prefix = on_device(extend, torch.int32), on_device(case["prefix"], torch.int32)
    if case.get("as_tuples") and extend is not None:
        extend, prefix = tuple(extend), tuple(case["prefix"])
    tokens = sum(case["extend"]) if case.get("extend") is not None else count
    requests = [
        Request(rid=str(at), lora_id=None, token_type_ids=None, grammar=None, dllm_block_offset=0)
        for at in range(count)
    ]
    values = {
        "forward_mode": ForwardMode[case["mode"]],
        "reqs": requests,
        "input_ids": on_device(range(tokens)),
        "req_pool_indices": on_device(range(count)),
        "seq_lens": on_device(lens),
        "seq_lens_cpu": torch.tensor(lens) if case["mirror"] else None,
        "seq_lens_sum": sum(lens) if case["sum"] else None,
        "out_cache_loc": on_device(range(tokens)),
        "extend_num_tokens": tokens,
        "extend_seq_lens": extend,
        "extend_prefix_lens": prefix,
        "extend_lens": extend,
        "prefix_lens": prefix,
        "lora_ids": [None] * count,
        "multimodal_inputs": [_image(each) for each in case.get("images", [None] * count)],
        "model_config": SimpleNamespace(vocab_size=1 << 20),
        "spec_algorithm": SpeculativeAlgorithm.EAGLE,
        "capture_hidden_mode": CaptureHiddenMode.NULL,
        "device": "cpu",
        "return_logprob": False,
        "is_extend_in_batch": False,
    }
    names = {field.name for field in fields(BATCH)}
    batch = BATCH.__new__(BATCH)
    for field in fields(BATCH):
        setattr(batch, field.name, None)
    for name, value in values.items():
        if name in names:
            setattr(batch, name, value)
    return batch


def _image(delta: int | None) -> Any:
    if delta is None:
        return None
    return SimpleNamespace(
        mrope_positions=torch.arange(30).reshape(3, 10) + delta,
        mrope_position_delta=torch.tensor([[delta]]),
        mrope_position_delta_repeated_cache=None,
    )


def described(forward_batch: ForwardBatch) -> dict[str, Any]:
    """Return a forward batch's lengths and positions, with the types of those on the device."""
    found = {
        name: plain(getattr(forward_batch, name))
        for name in (
            *(
                "input_ids",
                "batch_size",
                "seq_lens",
                "seq_lens_cpu",
                "seq_lens_sum",
                "positions",
                "mrope_positions",
            ),
            *("extend_num_tokens", "extend_seq_lens", "extend_prefix_lens", "extend_start_loc"),
            *("extend_seq_lens_cpu", "extend_prefix_lens_cpu"),
        )
    }
    found["mode"] = forward_batch.forward_mode.name
    found["types"] = [
        str(getattr(lens, "dtype", None))
        for lens in (
            *(forward_batch.seq_lens, forward_batch.extend_seq_lens, forward_batch.extend_prefix_lens),
            *(forward_batch.extend_seq_lens_cpu, forward_batch.extend_prefix_lens_cpu),
        )
    ]
    return found


@repeatable
def make(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Return the forward batch of a batch, and what was read to the host or copied to the device for it."""
    _serve(rl_on_policy_target=None)
    batch, model_runner = make_batch(case), runner(mrope=case.get("mrope", False))
    model_runner.device = device
    DeviceTensor.reads.clear()
    with PretendedCuda() if device == "cuda" else nullcontext() as cuda:
        forward_batch = ForwardBatch.init_new(batch, model_runner)
    reads = list(DeviceTensor.reads)
    return described(forward_batch) | {"reads": reads, "copies": getattr(cuda, "copies", [])}


@repeatable
def pad(case: dict[str, Any], size: int, fill_value: int) -> dict[str, Any]:
    """Return a forward batch padded to ``size`` requests of one token."""
    _serve()
    lens = case["lens"]
    count = len(lens)
    forward_batch = ForwardBatch(
        forward_mode=ForwardMode.DECODE,
        batch_size=count,
        input_ids=on_device(range(count)),
        req_pool_indices=on_device(range(count)),
        seq_lens=on_device(lens),
        seq_lens_cpu=torch.tensor(lens) if case["mirror"] else None,
        seq_lens_sum=sum(lens) if case["sum"] else None,
        out_cache_loc=on_device(range(count)),
        positions=on_device(range(count)),
        lora_ids=[None] * count,
    )
    DeviceTensor.reads.clear()
    forward_batch._pad_inputs_to_size(runner(backend=Backend(fill_value)), size, size)
    reads = list(DeviceTensor.reads)
    return described(forward_batch) | {"reads": reads}


def _graph_runner(runs: bool, prepared: list[dict[str, Any]]) -> Any:
    def prepare(forward_batch: ForwardBatch) -> None:
        prepared.append(described(forward_batch))

    return SimpleNamespace(can_run=lambda _: runs, replay_prepare=prepare)


@repeatable
def prepare_draft_extend(
    case: dict[str, Any], stride: int, *, graph: bool, standalone: bool = False
) -> dict[str, Any]:
    """Return what a draft-extend of ``stride`` tokens a request is given, and what its backend planned."""
    _serve()
    batch = make_batch(case)
    backend = Backend()
    DeviceTensor.reads.clear()
    forward_batch = EagleDraftInput().prepare_for_extend_to_fill_draft_kvcache(
        batch,
        on_device(range(len(case["lens"]) * stride)),
        stride,
        runner(backend=backend, standalone=standalone),
        _graph_runner(graph, []),
    )
    reads = list(DeviceTensor.reads)
    return described(forward_batch) | {"planned": backend.planned, "reads": reads}


@repeatable
def prepare_verify(case: dict[str, Any], tokens: int, *, graph: bool) -> dict[str, Any]:
    """Return what a verify of ``tokens`` draft tokens a request is given, and what its input says.

    With ``slots`` the server tracks states: they say which of its two places each request tracks the next one in, and
    ``mapping`` what places it has.
    """
    slots = case.get("slots")
    _serve(enable_mamba_extra_buffer=lambda: slots is not None)
    eagle_info_v2.assign_extend_cache_locs_func = lambda **_: on_device([0])
    batch = make_batch(case)
    count = len(case["lens"])
    values = dict.fromkeys(field.name for field in fields(EagleVerifyInput) if field.default is MISSING)
    values |= {
        "draft_token": on_device(range(count * tokens)),
        "positions": on_device(range(count * tokens)),
        "draft_token_num": tokens,
        "spec_steps": tokens - 1,
        "topk": 1,
    }
    spec_info = EagleVerifyInput(**values)
    batch.spec_info = spec_info
    pool = SimpleNamespace(
        req_to_token=None,
        req_index_to_mamba_ping_pong_track_buffer_mapping=on_device(
            case.get("mapping") or [[10 * row + 1, 10 * row + 2] for row in range(count)], torch.int32
        ),
    )
    batch.req_to_token_pool = pool
    for request, slot in zip(batch.reqs, slots or [None] * count, strict=True):
        request.mamba_next_track_idx = slot
    prepared: list[dict[str, Any]] = []
    model_runner = runner()
    model_runner.graph_runner = _graph_runner(graph, prepared)
    DeviceTensor.reads.clear()
    with PretendedCuda() if slots is not None else nullcontext():
        forward_batch, runs = spec_info.prepare_for_v2_verify(
            pool, batch, SimpleNamespace(model_runner=model_runner)
        )
    return described(forward_batch) | {
        "graph": runs,
        "replays": prepared,
        "input": [plain(spec_info.seq_lens_cpu), spec_info.seq_lens_sum],
        "tracked": plain(batch.mamba_track_indices),
        "reads": list(DeviceTensor.reads),
    }
