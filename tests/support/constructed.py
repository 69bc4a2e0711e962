"""What a start on a CPU constructs in each patched release: tables that a test checks and docs are generated from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

RELEASES = (
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1"),
    *("0.5.16", "0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)
"""The supported releases, oldest first."""


@dataclass(frozen=True)
class Case:
    """A server to start: its algorithm, attention backends of prefill and decode, the model's family."""

    worker: str
    backends: str
    family: str = "llama"
    plan_stream: bool = False
    lacking: tuple[str, ...] = ()
    """Releases in which it needs a GPU."""


CASES = (
    Case("eagle", "triton", plan_stream=True),
    Case("eagle", "fa3"),
    Case("eagle", "flashinfer"),
    # These compile a kernel when they start.
    Case("eagle", "trtllm_mla", "mla", lacking=("0.5.22", "0.5.23")),
    Case("eagle", "trtllm_mha"),
    Case("eagle", "trtllm_mha/triton"),
    Case("eagle", "triton", "hybrid-linear", plan_stream=True),
    Case("eagle", "fa3/triton", "hybrid-linear"),
    Case("eagle3", "triton", plan_stream=True),
    Case("standalone", "triton", plan_stream=True),
    Case("multi-layer", "triton", plan_stream=True),
    Case("frozen-kv", "triton", plan_stream=True, lacking=("0.5.11",)),
    Case("dflash", "fa3"),
    Case("ngram", "triton", plan_stream=True),
)

CONSTRUCTED = {
    "CudaGraphRunner": ("0.5.11", "0.5.13.post1"),
    "DFlashWorker": ("0.5.11", "0.5.13.post1"),
    "DFlashWorkerV2": ("0.5.14", "0.5.23"),
    "DecodeCudaGraphRunner": ("0.5.14", "0.5.21"),
    "EAGLEDraftCudaGraphRunner": ("0.5.11", "0.5.23"),
    "EAGLEDraftExtendCudaGraphRunner": ("0.5.11", "0.5.23"),
    "EAGLEWorkerV2": ("0.5.11", "0.5.23"),
    "EagerRunner": ("0.5.14", "0.5.23"),
    "EagleDraftWorker": ("0.5.11", "0.5.23"),
    "FlashAttentionBackend": ("0.5.11", "0.5.23"),
    "FlashAttentionMultiStepBackend": ("0.5.11", "0.5.23"),
    "FlashInferAttnBackend": ("0.5.11", "0.5.23"),
    "FlashInferMhaChunkKVRunner": ("0.5.11", "0.5.21"),
    "FlashInferMultiStepDraftBackend": ("0.5.11", "0.5.23"),
    "FrozenKVMTPCudaGraphRunner": ("0.5.12", "0.5.23"),
    "FrozenKVMTPDraftWorker": ("0.5.14", "0.5.23"),
    "FrozenKVMTPWorker": ("0.5.12", "0.5.13.post1"),
    "FrozenKVMTPWorkerV2": ("0.5.14", "0.5.23"),
    "FullCudaGraphBackend": ("0.5.14", "0.5.23"),
    "GDNAttnBackend": ("0.5.11", "0.5.23"),
    "HybridAttnBackend": ("0.5.11", "0.5.23"),
    "HybridLinearAttnBackend": ("0.5.11", "0.5.23"),
    "ModelRunner": ("0.5.11", "0.5.23"),
    "MultiLayerEagleDraftExtendCudaGraphRunner": ("0.5.11", "0.5.23"),
    "MultiLayerEagleDraftWorker": ("0.5.11", "0.5.23"),
    "MultiLayerEagleMultiStepDraftExtendCudaGraphRunner": ("0.5.11", "0.5.23"),
    "MultiLayerEagleWorkerV2": ("0.5.11", "0.5.23"),
    "NGRAMWorker": ("0.5.11", "0.5.23"),
    "StandaloneDraftWorker": ("0.5.11", "0.5.23"),
    "StandaloneWorkerV2": ("0.5.11", "0.5.23"),
    "TRTLLMHAAttnBackend": ("0.5.11", "0.5.23"),
    "TRTLLMHAAttnMultiStepDraftBackend": ("0.5.11", "0.5.23"),
    "TRTLLMMLABackend": ("0.5.11", "0.5.21"),
    "TRTLLMMLAMultiStepDraftBackend": ("0.5.11", "0.5.21"),
    "TpModelWorker": ("0.5.11", "0.5.23"),
    "TritonAttnBackend": ("0.5.11", "0.5.23"),
    "TritonMultiStepDraftBackend": ("0.5.11", "0.5.23"),
}
"""Classes that a start instantiates, with the first and the last release in which it does."""

PATCHES = {
    "25002": ("0.5.11", "0.5.12.post1"),
    "25925": ("0.5.11", "0.5.12.post1"),
    "25925/plan-stream": ("0.5.11", "0.5.23"),
    "26128": ("0.5.11", "0.5.12.post1"),
    "26128/eager": ("0.5.11", "0.5.12.post1"),
    "26128/guards": ("0.5.11", "0.5.23"),
    "26241": ("0.5.11", "0.5.12.post1"),
    "26313": ("0.5.11", "0.5.12.post1"),
    "26380": ("0.5.11", "0.5.13.post1"),
    "26397": ("0.5.11", "0.5.12.post1"),
    "26424": ("0.5.11", "0.5.12.post1"),
    "26424/steps": ("0.5.11", "0.5.15.post1"),
    "26800": ("0.5.11", "0.5.12.post1"),
    "26824": ("0.5.11", "0.5.12.post1"),
    "27338": ("0.5.11", "0.5.12.post1"),
    "27360": ("0.5.11", "0.5.12.post1"),
    "27689": ("0.5.11", "0.5.17"),
    "28465": ("0.5.11", "0.5.13.post1"),
    "28559": ("0.5.11", "0.5.13.post1"),
    "28579": ("0.5.11", "0.5.13.post1"),
    "28782": ("0.5.11", "0.5.13.post1"),
    "28782/host-plan": ("0.5.11", "0.5.13.post1"),
    "28856": ("0.5.11", "0.5.13.post1"),
    "29343": ("0.5.11", "0.5.14"),
    "31364": ("0.5.11", "0.5.14"),
    "32886": ("0.5.11", "0.5.16"),
    "35546": ("0.5.11", "0.5.19"),
    "pk-accepted-tokens": ("0.5.11", "0.5.12.post1"),
    "pk-attention-views": ("0.5.11", "0.5.23"),
    "pk-dead-work": ("0.5.11", "0.5.16"),
    "pk-draft-slots": ("0.5.11", "0.5.12.post1"),
    "pk-fa3-branches": ("0.5.11", "0.5.14"),
    "pk-fa3-draft-extend-graph": ("0.5.11", "0.5.22"),
    "pk-fa3-verify-schedule": ("0.5.11", "0.5.23"),
    "pk-flashinfer-lengths": ("0.5.11", "0.5.22"),
    "pk-flashinfer-lengths/chains": ("0.5.11", "0.5.13.post1"),
    "pk-head-graph": ("0.5.11", "0.5.12.post1"),
    "pk-hybrid-opt-out": ("0.5.11", "0.5.15.post1"),
    "pk-linear-launches": ("0.5.11", "0.5.14"),
    "pk-small-launches": ("0.5.11", "0.5.21"),
    "pk-step-inputs": ("0.5.11", "0.5.21"),
    "pk-tail-graph": ("0.5.11", "0.5.12.post1"),
    "pk-triton-replay": ("0.5.11", "0.5.16"),
    "pk-trtllm-mha-opt-out": ("0.5.11", "0.5.13.post1"),
    "pk-verify-outputs": ("0.5.11", "0.5.21"),
}
"""Patches and parts that changed such a class, its bases, or a function that a start calls, where they apply."""


def on(release: str, spans: Mapping[str, tuple[str, str]]) -> frozenset[str]:
    """Return a table's entry for a release."""
    index = RELEASES.index(release)
    return frozenset(
        name for name, ends in spans.items() if RELEASES.index(ends[0]) <= index <= RELEASES.index(ends[1])
    )
