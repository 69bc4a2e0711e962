"""The decision about the mirror: its inputs, backends and settings, and who receives it."""

from __future__ import annotations

import functools
import logging
import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.attention.flashinfer_mla_backend import FlashInferMLAAttnBackend
from sglang.srt.layers.attention.hybrid_attn_backend import HybridAttnBackend
from sglang.srt.layers.attention.tbo_backend import TboAttnBackend
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend, TritonMultiStepDraftBackend
from sglang.srt.layers.attention.trtllm_mha_backend import TRTLLMHAAttnBackend
from sglang.srt.layers.attention.trtllm_mla_backend import TRTLLMMLABackend, TRTLLMMLAMultiStepDraftBackend
from sglang.srt.managers import overlap_utils
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.speculative.base_spec_worker import BaseSpecWorker
from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2
from sglang.srt.speculative.multi_layer_eagle_worker_v2 import MultiLayerEagleWorkerV2
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang.srt.speculative.standalone_worker_v2 import StandaloneWorkerV2

from patchkit.runtime import decision, report

from . import repeatable

# Each decision is logged with the patches in the tree, whose sources do not change meanwhile.
report.patches_loaded = functools.cache(report.patches_loaded)

REAL = {
    "base": AttentionBackend,
    "triton": TritonAttnBackend,
    "triton draft": TritonMultiStepDraftBackend,
    "trtllm mla": TRTLLMMLABackend,
    "trtllm mla draft": TRTLLMMLAMultiStepDraftBackend,
    "trtllm mha": TRTLLMHAAttnBackend,
    "flashinfer mla": FlashInferMLAAttnBackend,
}


def bare(cls: type) -> Any:
    """Return an uninitialised object of a class, abstract or not."""
    made = type(cls.__name__, (cls,), {})
    made.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
    return object.__new__(made)


def backend(kind: str | None) -> Any:
    """Return a backend of a kind: declared by hand, a real class's, or one that wraps Triton's."""
    if kind is None:
        return None
    if kind == "undeclared":
        return SimpleNamespace()
    if kind in ("reads", "opted out"):
        return SimpleNamespace(needs_cpu_seq_lens=kind == "reads")
    if kind in REAL:
        return bare(REAL[kind])
    made = bare({"hybrid": HybridAttnBackend, "two-batch": TboAttnBackend}[kind])
    made.prefill_backend = made.decode_backend = made.primary = bare(TritonAttnBackend)
    made.model_runner = SimpleNamespace(server_args=SimpleNamespace(speculative_attention_mode="decode"))
    return made


def hybrid(prefill: str, decode: str, verify_side: str) -> dict[str, Any]:
    """Return what a backend of two sides declares for them: flag, context length and verify buffers."""
    made = bare(HybridAttnBackend)
    made.prefill_backend, made.decode_backend = backend(prefill), backend(decode)
    for name, side in (("prefill", made.prefill_backend), ("decode", made.decode_backend)):
        side.max_context_len = {"prefill": 100, "decode": 200}[name]
        side.get_verify_buffers_to_fill_after_draft = lambda name=name: [f"{name}'s mask", None]
    made.model_runner = SimpleNamespace(server_args=SimpleNamespace(speculative_attention_mode=verify_side))
    return {
        "needs": made.needs_cpu_seq_lens,
        "context": getattr(made, "max_context_len", None),
        "buffers": made.get_verify_buffers_to_fill_after_draft(),
    }


def _settings(described: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**described)


def declared() -> dict[str, bool | None]:
    """Return what each class of backends declares."""
    return {kind: getattr(cls, "needs_cpu_seq_lens", None) for kind, cls in REAL.items()}


@repeatable
def decide(requests: list[tuple[dict[str, Any], list[str | None]]], disable: str = "") -> list[bool]:
    """Return the decision for each server's settings and backends, with the patches in ``disable`` off.

    They are completed as the scheduler completes them.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    return [
        overlap_utils.decide_needs_cpu_seq_lens(
            _settings(settings), decision.with_switches([backend(kind) for kind in kinds], object())
        )
        for settings, kinds in requests
    ]


# Whether batches keep the mirror before anybody is asked.
_KEPT = getattr(ScheduleBatch, "needs_cpu_seq_lens", None)


class _SilentWorker(BaseSpecWorker):
    """A spec-v2 worker that names no backends of its own."""

    @property
    def target_worker(self) -> Any:
        return self._target_worker

    @property
    def draft_worker(self) -> Any:
        return self._draft_worker


WORKERS = {
    "eagle": EAGLEWorkerV2,
    "standalone": StandaloneWorkerV2,
    "multi-layer": MultiLayerEagleWorkerV2,
    "silent": _SilentWorker,
}


def worker(
    kind: str, slots: list[Any], plan_stream: bool = False, eager: Any = None, mrope: bool = False
) -> Any:
    """Return a worker whose target, draft and draft-extend backends are ``slots``, a stream if asked for.

    ``eager`` is the draft runner's own backend, which plans a draft-extend without a graph; ``mrope`` if the draft has
    multimodal rotary positions.
    """
    stream = object() if plan_stream else None
    if kind == "unrelated":
        return SimpleNamespace(plan_stream=stream)
    made = bare(WORKERS[kind])
    target, draft, *extends = slots
    made._target_worker = SimpleNamespace(model_runner=SimpleNamespace(attn_backend=target))
    made._draft_worker = SimpleNamespace(
        draft_attn_backend=draft,
        draft_extend_attn_backend=extends[0],
        draft_extend_attn_backend_list=extends,
        draft_runner=SimpleNamespace(attn_backend=eager, model_is_mrope=mrope),
    )
    made.plan_stream = stream
    return made


def named(kind: str) -> list[str]:
    """Return the slots that a worker names, each by what it is; one that is none of its slots as ``other``."""
    slots = ["target", "draft", "extend", "second extend"]
    found = worker(kind, slots, eager="eager").spec_v2_attn_backends
    return [slot if slot in {*slots, "eager"} else "other" for slot in found]


def _overlapped(drafting: Any, target: Any, settings: dict[str, bool], *, overlap: bool = True) -> Any:
    """Return a scheduler that has started its overlap, of a server with this draft worker, None without speculation."""
    if _KEPT is not None:
        ScheduleBatch.needs_cpu_seq_lens = _KEPT
    module = SimpleNamespace(Stream=lambda: None, stream=lambda _: None, Event=lambda: None)
    setattr(torch, "get_device_module", lambda _: module)  # noqa: B010
    given = {"speculative_algorithm": None if drafting is None else "EAGLE", **settings}
    # Later trees ask for the settings by group.
    groups = {"get_exec": SimpleNamespace(overlap=_settings(given)), "get_spec": _settings(given)}
    for name in groups.keys() & vars(overlap_utils).keys():
        setattr(overlap_utils, name, lambda name=name: groups[name])
    scheduler = object.__new__(Scheduler)
    vars(scheduler).update(
        device="cpu",
        forward_stream=None,
        enable_overlap=overlap,
        server_args=_settings(given),
        draft_worker=drafting,
        tp_worker=SimpleNamespace(model_runner=SimpleNamespace(attn_backend=target)),
        max_running_requests=4,
        chunked_prefill_size=16,
        model_config=SimpleNamespace(context_len=32),
        spec_algorithm=SpeculativeAlgorithm.NONE if drafting is None else SpeculativeAlgorithm.EAGLE,
        req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros(4, 8)),
    )
    scheduler.init_overlap()
    return scheduler


def kept(target: Any, draft: Any) -> bool:
    """Return whether the scheduler of a server with EAGLE and these backends keeps the mirror.

    ``draft`` is the backend of the draft's steps. A tree without the decision keeps it.
    """
    settings = {"enable_two_batch_overlap": False, "disable_piecewise_cuda_graph": True}
    drafting = worker("eagle", [target, draft, target], eager=target)
    return bool(getattr(_overlapped(drafting, target, settings).future_map, "needs_cpu_seq_lens", True))


@repeatable
def start(
    kind: str | None,
    kinds: list[str | None],
    settings: dict[str, bool],
    *,
    plan_stream: bool = False,
    overlap: bool = True,
    eager: str | None = None,
    mrope: bool = False,
    disable: str = "",
) -> dict[str, Any]:
    """Start a scheduler's overlap with the patches in ``disable`` off; return the decision that map and batches got.

    ``logged`` are the lines that patchkit's runtime wrote to the log.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("patchkit").handlers = [handler]
    logging.getLogger("patchkit").setLevel(logging.INFO)
    slots = [backend(kind) for kind in kinds]
    drafting = None if kind is None else worker(kind, slots, plan_stream, backend(eager), mrope)
    scheduler = _overlapped(drafting, slots[0], settings, overlap=overlap)
    return {
        "map": getattr(scheduler.future_map, "needs_cpu_seq_lens", None),
        "batches": getattr(ScheduleBatch, "needs_cpu_seq_lens", None),
        "records": getattr(scheduler, "batch_record_ct", None),
        "logged": lines,
    }
