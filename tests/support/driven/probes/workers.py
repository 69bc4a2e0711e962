"""Spec-v2 workers: the size of a verify's tree mask, which graphs they capture, how they start with a plan stream."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.trtllm_mha_backend import TRTLLMHAAttnBackend
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative import eagle_worker_v2, multi_layer_eagle_worker_v2, standalone_worker_v2
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker
from sglang.srt.speculative.multi_layer_eagle_worker_v2 import MultiLayerEagleDraftWorker
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import repeatable
from .decisions import backend, bare
from .recorders import DeviceTensor, on_device, plain

MODULES = {
    "eagle": eagle_worker_v2,
    "multi-layer": multi_layer_eagle_worker_v2,
    "standalone": standalone_worker_v2,
}
DRAFT_WORKERS = {"eagle": EagleDraftWorker, "multi-layer": MultiLayerEagleDraftWorker}


@repeatable
def draft(kind: str, lens: list[int], case: dict[str, Any]) -> dict[str, Any]:
    """Draft for requests of the lengths; return the total that sizes the tree mask and what was read for it."""
    module, worker = MODULES[kind], bare(DRAFT_WORKERS[kind])
    built: list[tuple[Any, ...]] = []

    def build(*arguments: Any) -> tuple[Any, ...]:
        built.append(arguments)
        return ("mask", "positions", "index", "next token", "next sibling", "draft tokens")

    module.build_tree_kernel_efficient = build
    mask = on_device([1]) if case["preallocated"] else None
    target = SimpleNamespace(
        get_verify_buffers_to_fill_after_draft=lambda: (mask, None), max_context_len=case["context"]
    )
    forward_batch = SimpleNamespace(forward_mode=ForwardMode.DECODE, mark_forward_metadata_ready=lambda: None)
    spec_info = SimpleNamespace(
        bonus_tokens="bonus", prepare_for_v2_draft=lambda *_: (forward_batch, case["graph"])
    )
    drafted = ("parents", "top scores", "drafts")
    vars(worker).update(
        req_to_token_pool=None,
        target_worker=SimpleNamespace(model_runner=SimpleNamespace(attn_backend=target)),
        cuda_graph_runner=SimpleNamespace(replay=lambda _: drafted),
        draft_runner=SimpleNamespace(canary_manager=None),
        draft_runner_list=[SimpleNamespace(canary_manager=None)],
        draft_attn_backend=SimpleNamespace(init_forward_metadata=lambda _: None),
        draft_forward=lambda _: drafted,
        topk=1,
        speculative_num_steps=3,
        speculative_num_draft_tokens=4,
        tree_mask_mode=SimpleNamespace(name="FULL_MASK"),
    )
    batch = SimpleNamespace(
        spec_info=spec_info,
        forward_mode=ForwardMode.DECODE,
        seq_lens=on_device(lens),
        seq_lens_sum=sum(lens) if case["sum"] else None,
    )
    DeviceTensor.reads.clear()
    verify_input = worker.draft(batch)
    total = built[0][5]
    return {
        "total": total,
        "type": type(total).__name__,
        "arguments": [plain(each) for each in (*built[0][:5], *built[0][6:])],
        "mask": verify_input.custom_mask,
        "reads": list(DeviceTensor.reads),
    }


class _Descendant(TRTLLMHAAttnBackend):
    """A fork's own variant of the backend."""


def captured(kinds: list[str | None], *, cuda: bool = True) -> list[bool]:
    """Return for each kind of draft-extend backend whether a worker captures a draft-extend graph."""
    eagle_worker_v2._is_cuda = cuda
    eagle_worker_v2.get_available_gpu_memory = lambda *_: 0.0
    eagle_worker_v2.log_info_on_rank0 = lambda *_: None
    eagle_worker_v2.EAGLEDraftExtendCudaGraphRunner = lambda _: "graph"
    found = []
    for kind in kinds:
        worker = bare(EagleDraftWorker)
        vars(worker).update(
            server_args=SimpleNamespace(
                disable_cuda_graph=False,
                model_impl="auto",
                speculative_num_steps=1,
                speculative_num_draft_tokens=2,
            ),
            speculative_num_steps=1,
            speculative_num_draft_tokens=2,
            target_worker=SimpleNamespace(device="cuda"),
            device="cpu",
            gpu_id=0,
            draft_attn_backend=None,
            draft_extend_attn_backend=bare(_Descendant) if kind == "descendant" else backend(kind),
        )
        worker.init_cuda_graphs()
        found.append(worker.cuda_graph_runner_for_draft_extend is not None)
    return found


class _StartedError(Exception):
    """The scheduler has its workers and asks the target's for its limits."""


@repeatable
def start(kind: str, target: str | None, *, plan_stream: bool, disaggregation: str = "null") -> bool:
    """Have a scheduler start a worker; return whether it has a plan stream then.

    The target's worker has a backend of a kind, or none at all yet.
    """
    module = MODULES[kind]
    stream = SimpleNamespace(device=torch.device("cpu")) if plan_stream else None
    module._get_plan_stream = lambda _: (stream, nullcontext())
    made = SimpleNamespace()
    for name in ("EagleDraftWorker", "MultiLayerEagleDraftWorker", "StandaloneDraftWorker"):
        if hasattr(module, name):
            setattr(module, name, lambda *_: made)
    server_args = SimpleNamespace(
        speculative_eagle_topk=1,
        speculative_num_steps=3,
        speculative_num_draft_tokens=4,
        speculative_algorithm="STANDALONE" if kind == "standalone" else "EAGLE",
        speculative_adaptive=False,
        device="cpu",
        page_size=1,
        context_length=None,
        disaggregation_mode=disaggregation,
    )
    model_runner = SimpleNamespace(model_config=SimpleNamespace(context_len=64))
    if target is not None:
        model_runner.attn_backend = backend(target)

    def started() -> None:
        raise _StartedError

    target_worker = SimpleNamespace(
        model_runner=model_runner, get_memory_pool=lambda: (None, None), get_worker_info=started
    )
    cls = {
        "eagle": "EAGLEWorkerV2",
        "multi-layer": "MultiLayerEagleWorkerV2",
        "standalone": "StandaloneWorkerV2",
    }[kind]
    worker = getattr(module, cls)(server_args, 0, 0, 0, 0, 0, 0, 0, target_worker)
    scheduler = bare(Scheduler)
    vars(scheduler).update(
        server_args=server_args,
        spec_algorithm=SpeculativeAlgorithm.EAGLE,
        tp_worker=target_worker,
        draft_worker=worker,
        init_tp_model_worker=lambda: None,
        maybe_init_draft_worker=lambda: None,
    )
    with suppress(_StartedError):
        scheduler.init_model_worker()
    return worker.plan_stream is not None


class _PlanStream:
    """A plan stream that writes down what it waits for; entering it ends the probe."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.notes: list[str] = []

    def wait_stream(self, stream: object) -> None:
        self.notes.append("waits" if stream == torch.cpu.current_stream() else "waits for another")

    def __enter__(self) -> None:
        self.notes.append("entered")
        raise StopIteration

    def __exit__(self, *_: object) -> None:
        pass


def plan(kind: str, function: str, *, plan_stream: bool) -> list[str]:
    """Let a worker prepare a verify or a draft-extend; return what the plan stream did until it was entered."""
    stream, module = _PlanStream(), MODULES[kind]
    module.record_stream_for_v2_verify = lambda *_: None
    verifying = {"eagle": "EAGLEWorkerV2", "multi-layer": "MultiLayerEagleWorkerV2"}[kind]
    worker = bare(DRAFT_WORKERS[kind] if function != "verify" else getattr(module, verifying))
    vars(worker).update(
        device="cpu",
        speculative_num_steps=3,
        speculative_num_draft_tokens=4,
        plan_stream=stream if plan_stream else None,
        plan_stream_ctx=stream,
        cuda_graph_runner_for_draft_extend=None,
    )
    lens = torch.tensor([3, 1])
    batch = SimpleNamespace(spec_info=SimpleNamespace(), seq_lens=lens)
    result = SimpleNamespace(logits_output=SimpleNamespace(hidden_states=None), accept_lens=lens)
    with suppress(StopIteration):
        getattr(worker, function)(*((batch,) if function == "verify" else (batch, result)))
    return stream.notes


def call_hook(kind: str) -> list[str]:
    """Call a backend's hook after a draft; return the names of what it set or changed."""
    made = backend(kind)
    made.forward_metadata = before = object()
    made.update_verify_buffers_to_fill_after_draft(SimpleNamespace(custom_mask=None), 4)
    changed = [] if made.forward_metadata is before else ["forward_metadata"]
    return [*(set(vars(made)) - {"forward_metadata"}), *changed]
