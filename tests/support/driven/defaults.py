"""What drives each function that default patches touch as a server with sglang's default settings does.

That is a top-k of 1, no plan stream and one rank, and a batch of a decode, a verify, an extend or a draft-extend, or an
idle one. Which functions the default patches touch in a release, its code tells; each of them needs a case here, or a
reason for none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from support.releases import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES = (
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1"),
    *("0.5.16", "0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", LATEST),
)
LENS = [40, 65, 17]
ROW = 216
"""Tokens of a row of the request pool; the context is shorter, by room for what a step writes ahead."""
BOUND = len(LENS) * ROW * 8
"""Bytes that 26128 states as its risk: what a batch without the mirror may allocate."""

SMALLEST = 512
"""Bytes that CUDA's allocator gives at least."""


class Case(NamedTuple):
    """A probe with its arguments, for releases from ``first`` to ``last``.

    ``besides`` names what in its answer is not the result, but how it came about or what is not read. ``mirror``:
    whether the batch has its lengths on the host. ``wider``: how many bytes more may be allocated, as the patch says.
    """

    probe: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = {}  # noqa: RUF012 - read only.
    besides: str = ""
    mirror: bool = True
    wider: int = 0
    first: str = RELEASES[0]
    last: str = RELEASES[-1]

    def __str__(self) -> str:
        given = [*map(repr, self.arguments), *(f"{name}={value!r}" for name, value in self.keywords.items())]
        return f"{self.probe}({', '.join(given)})"


class Driven(NamedTuple):
    """Functions, in whichever releases they are touched, and the cases that run them."""

    functions: tuple[str, ...]
    cases: tuple[Case, ...]


def _of(file: str, *names: str) -> tuple[str, ...]:
    return tuple(f"srt/{file}::{name}" for name in names)


SERVER = {"context": 200, "requests": 24, "page_size": 1, "seed": 1, "draft_tokens": 4}
P32, P64 = SERVER | {"page_size": 32}, SERVER | {"page_size": 64}
CHAIN = P32 | {"topk": 1, "steps": 3}
BATCH = {"rows": [3, 9, 5], "lens": LENS, "accepted": [4, 4, 4]}
REPLAY = {"lens": LENS, "mirror": True, "sum": True, "topk": True, "fill": 1}
STEP = {
    "lens": LENS,
    "mirror": True,
    "sum": True,
    "event": True,
    "done": [False] * 3,
    "first_row": 0,
    "futures": True,
}
DRAFT = {
    **{"topk": 1, "steps": 3, "draft_tokens": 4, "rows": 3, "times": 2, "vocabulary": 11, "seed": 1},
    **{"hot": False, "states": True},
}
VERIFIED = {
    "drafts": [[0, 1, 2, 0], [1, 1, 1, 1], [2, 0, 0, 1]],
    "targets": [[1, 2, 2, 0], [1, 1, 1, 2], [1, 1, 0, 2]],
    "lens": LENS,
    "vocabulary": 3,
    "topk": 1,
}
BRANCHES = {
    **{"seed": 3, "lens": [5, 9, 2], "limits": [99] * 3},
    **{"tokens": 8, "depth": 4, "vocabulary": 2, "steps": 3},
}
"""Steps of a v1 verify of several branches, in which no request ends."""
TAILS = {"draft_tokens": 4, "captured": [1, 2, 4]}
STEPS = [
    {"rows": [3, 9, 5], "lens": [40, 30, 17], "accepted": [1, 4, 2], "replayed": replayed}
    for replayed in (True, True, False)
]
STATES = {"tokens": 4, "interval": 8, "lens": [6, 9], "accepted": [3, 1], "slots": [3, 5]}
DECODE = {"mode": "DECODE", "lens": LENS, "mirror": True, "sum": True}
EXTEND = DECODE | {"mode": "EXTEND", "extend": [4, 4, 4], "prefix": [36, 61, 13], "on_device": False}
OVERLAP = {"enable_two_batch_overlap": False, "disable_piecewise_cuda_graph": True}


def session(server: dict[str, Any], mode: str) -> dict[str, Any]:
    """Return a graph's capture and one replay, with one request of padding."""
    batch = BATCH | {"graph": 4, "stride": 4}
    return {"server": server, "mode": mode, "graphs": [4], "batches": [batch], "step": 0}


DRIVEN = (
    Driven(
        _of(
            "layers/attention/hybrid_attn_backend.py",
            "HybridAttnBackend.needs_cpu_seq_lens",
            "HybridAttnBackend.max_context_len",
            "HybridAttnBackend.get_verify_buffers_to_fill_after_draft",
        ),
        (Case("default_server.hybrid", (), first="0.5.15", last="0.5.15.post1"),),
    ),
    Driven(
        _of("layers/attention/deepseek_v4_backend.py", "DeepseekV4AttnBackend.init_cuda_graph_state"),
        (Case("default_server.graph_state", ("dsv4",), wider=256, first="0.5.16"),),
    ),
    Driven(
        _of(
            "layers/attention/flashattention_backend.py",
            "FlashAttentionBackend._apply_cuda_graph_metadata",
            "FlashAttentionBackend.init_forward_metadata_replay_cuda_graph",
            "FlashAttentionBackend.needs_cpu_seq_lens",
        ),
        (
            Case(
                "flash_attention.replays",
                (session(P64, "draft decode"), "true"),
                besides="max_seq_len_k page_table host_reads",
                last="0.5.14",
            ),
            Case(
                "flash_attention.replays",
                (session(P64, "verify"), "true"),
                besides="max_seq_len_k page_table host_reads",
                last="0.5.14",
            ),
            Case(
                "flash_attention.replays",
                (session(P64, "extend v2"), "true"),
                besides="max_seq_len_k page_table host_reads",
                last="0.5.14",
            ),
        ),
    ),
    Driven(
        _of(
            "layers/attention/flashattention_backend.py",
            "FlashAttentionBackend._apply_cuda_graph_metadata",
            "FlashAttentionBackend.init_forward_metadata_replay_cuda_graph",
            "FlashAttentionBackend.needs_cpu_seq_lens",
            "FlashAttentionMultiStepBackend.init_forward_metadata_capture_cuda_graph",
            "FlashAttentionMultiStepBackend.init_forward_metadata_out_graph",
            "FlashAttentionMultiStepBackend.init_forward_metadata_replay_cuda_graph",
        ),
        (
            Case(
                "flash_attention.steps",
                (session(P64, "draft decode"), 3, "true"),
                besides="max_seq_len_k page_table host_reads fills",
                last="0.5.14",
            ),
        ),
    ),
    Driven(
        _of("layers/attention/flashattention_backend.py", "FlashAttentionBackend.forward_decode"),
        (
            Case(
                "flash_attention.layers",
                ("plain", "decode", [2]),
                besides="copied plan planned",
                last="0.5.14",
            ),
            Case("default_server.flash_layer", ("DECODE", LENS), first="0.5.15"),
        ),
    ),
    Driven(
        _of("layers/attention/flashattention_backend.py", "FlashAttentionBackend.forward_extend"),
        (
            Case(
                "flash_attention.layers",
                ("plain", "verify", [2]),
                besides="copied plan planned",
                last="0.5.14",
            ),
            Case("default_server.flash_layer", ("TARGET_VERIFY", LENS), first="0.5.15"),
            Case("default_server.flash_layer", ("EXTEND", LENS), first="0.5.15"),
            Case("default_server.flash_layer", ("DRAFT_EXTEND_V2", LENS), first="0.5.15"),
        ),
    ),
    Driven(
        _of("layers/attention/flashattention_backend.py", "FlashAttentionBackend.init_cuda_graph_state"),
        (Case("default_server.graph_state", ("flash",), first="0.5.16"),),
    ),
    Driven(
        _of("layers/attention/flashattention_backend.py", "FlashAttentionBackend.init_forward_metadata"),
        (
            Case("flash_attention.eager", (SERVER, "decode", BATCH, 0), last="0.5.14"),
            Case("flash_attention.eager", (SERVER, "draft decode", BATCH, 0), last="0.5.14"),
            Case("flash_attention.eager", (SERVER, "verify", BATCH, 0), last="0.5.14"),
            Case("flash_attention.eager", (SERVER, "extend", BATCH, 0), last="0.5.14"),
            Case("flash_attention.eager", (SERVER, "extend v2", BATCH, 0), last="0.5.14"),
        ),
    ),
    Driven(
        _of(
            "layers/attention/flashattention_backend.py",
            "FlashAttentionBackend.needs_cpu_seq_lens",
            "FlashAttentionMultiStepBackend.needs_cpu_seq_lens",
        ),
        (Case("flash_attention.keeps_mirror", (["plain"],), last="0.5.14"),),
    ),
    Driven(
        _of(
            "layers/attention/flashinfer_backend.py",
            "FlashInferAttnBackend.init_forward_metadata_capture_cuda_graph",
            "FlashInferAttnBackend.init_forward_metadata_out_graph",
            "FlashInferAttnBackend.init_forward_metadata_replay_cuda_graph",
        ),
        (Case("default_server.flashinfer", (LENS,), last="0.5.13.post1"),),
    ),
    *(
        Driven(
            _of(f"layers/attention/{module}.py", f"{name}.init_cuda_graph_state"),
            (
                Case(
                    "draft_rows.drafted",
                    (attention, LENS),
                    {"topk": 1, "steps": 3, "context": 200},
                    last="0.5.12.post1",
                ),
            ),
        )
        for module, name, attention in (
            ("flashinfer_backend", "FlashInferMultiStepDraftBackend", "mha"),
            ("flashinfer_mla_backend", "FlashInferMLAMultiStepDraftBackend", "mla"),
        )
    ),
    Driven(
        _of("layers/attention/flashmla_backend.py", "FlashMLABackend.init_cuda_graph_state"),
        (Case("default_server.graph_state", ("flashmla",), first="0.5.16"),),
    ),
    Driven(
        _of(
            "layers/attention/hybrid_attn_backend.py",
            "HybridAttnBackend.get_verify_buffers_to_fill_after_draft",
            "HybridAttnBackend.max_context_len",
        ),
        (Case("hybrid.verify_side", (P32, "decode", 4), last="0.5.14"),),
    ),
    Driven(
        _of("layers/attention/hybrid_attn_backend.py", "HybridAttnBackend.needs_cpu_seq_lens"),
        (Case("hybrid.reads_mirror", ("mha/triton", P32), last="0.5.14"),),
    ),
    Driven(
        _of(
            "layers/attention/hybrid_linear_attn_backend.py",
            "HybridLinearAttnBackend.max_context_len",
            "HybridLinearAttnBackend.needs_cpu_seq_lens",
        ),
        (Case("linear_attention.keeps_mirror", ("gdn", None), last="0.5.13.post1"),),
    ),
    Driven(
        _of(
            "layers/attention/hybrid_linear_attn_backend.py",
            "Mamba2AttnBackend.init_forward_metadata_out_graph",
            "MambaAttnBackendBase._replay_metadata",
            "MambaAttnBackendBase.init_forward_metadata_out_graph",
        ),
        (
            Case(
                "linear_attention.replays",
                (session(SERVER, "verify"), "mamba2", True),
                besides="host_reads",
                last="0.5.13.post1",
            ),
        ),
    ),
    Driven(
        _of(
            "layers/attention/hybrid_linear_attn_backend.py",
            "MambaAttnBackendBase._replay_metadata",
            "MambaAttnBackendBase.init_forward_metadata_out_graph",
        ),
        (
            Case(
                "linear_attention.replays",
                (session(SERVER, "verify"), "gdn", True),
                besides="host_reads",
                last="0.5.14",
            ),
        ),
    ),
    Driven(
        _of(
            "layers/attention/triton_backend.py",
            "TritonAttnBackend._apply_cuda_graph_metadata",
            "TritonAttnBackend._update_target_verify_buffers",
            "TritonAttnBackend.init_cuda_graph_state",
        ),
        (Case("default_server.triton_graph", ("TARGET_VERIFY", LENS, 3), first="0.5.13"),),
    ),
    Driven(
        _of("layers/attention/triton_backend.py", "TritonAttnBackend._translate_cuda_graph_shared_pool_locs"),
        (Case("later_batches.shared_pool", (LENS, 4, True, True), first="0.5.15", last="0.5.18"),),
    ),
    Driven(
        _of("layers/attention/triton_backend.py", "TritonAttnBackend.forward_extend"),
        (
            Case("triton_attention.extended", ("rows", "verify"), besides="keys values", last="0.5.13.post1"),
            Case("default_server.triton_layer", ("TARGET_VERIFY", LENS), first="0.5.14"),
            Case("default_server.triton_layer", ("EXTEND", LENS), first="0.5.14"),
            Case("default_server.triton_layer", ("DRAFT_EXTEND_V2", LENS), first="0.5.14"),
        ),
    ),
    Driven(
        _of(
            "layers/attention/triton_backend.py",
            "TritonAttnBackend.init_cuda_graph_state",
            "TritonAttnBackend.init_forward_metadata_capture_cuda_graph",
            "TritonAttnBackend.init_forward_metadata_replay_cuda_graph",
            "TritonAttnBackend._apply_cuda_graph_metadata",
            "TritonAttnBackend._update_target_verify_buffers",
        ),
        (
            Case("triton_attention.replays", (session(SERVER, "verify"), True), last="0.5.13.post1"),
            Case("triton_attention.replays", (session(SERVER, "extend v2"), True), last="0.5.13.post1"),
        ),
    ),
    Driven(
        _of("layers/attention/triton_backend.py", "TritonAttnBackend.init_forward_metadata"),
        (
            Case("triton_attention.eager", (SERVER, "decode", BATCH, True), last="0.5.13.post1"),
            Case("triton_attention.eager", (SERVER, "verify", BATCH, True), last="0.5.13.post1"),
            Case("triton_attention.eager", (SERVER, "extend", BATCH, True), last="0.5.13.post1"),
            Case("triton_attention.eager", (SERVER, "extend v2", BATCH, True), last="0.5.13.post1"),
            Case(
                "triton_attention.eager",
                (SERVER, "verify", BATCH, False),
                besides="size host_reads",
                mirror=False,
                last="0.5.13.post1",
            ),
            Case(
                "triton_attention.eager",
                (SERVER, "extend v2", BATCH, False),
                besides="size host_reads",
                mirror=False,
                last="0.5.13.post1",
            ),
            Case("default_server.triton", ("DECODE", LENS), first="0.5.14"),
            Case("default_server.triton", ("TARGET_VERIFY", LENS), first="0.5.14"),
            Case("default_server.triton", ("EXTEND", LENS), first="0.5.14"),
            Case("default_server.triton", ("DRAFT_EXTEND_V2", LENS), first="0.5.14"),
            Case("default_server.triton", ("IDLE", []), first="0.5.14"),
            Case(
                "default_server.triton",
                ("TARGET_VERIFY", LENS),
                {"mirror": False},
                mirror=False,
                first="0.5.14",
            ),
            Case(
                "default_server.triton",
                ("DRAFT_EXTEND_V2", LENS),
                {"mirror": False},
                mirror=False,
                first="0.5.14",
            ),
        ),
    ),
    Driven(
        _of("layers/attention/triton_backend.py", "TritonMultiStepDraftBackend.common_template"),
        (
            Case("triton_attention.draft", (CHAIN | {"page_size": 1}, BATCH, True), last="0.5.13.post1"),
            # The tree's own buffer for all three steps.
            Case(
                "triton_attention.draft",
                (CHAIN | {"page_size": 1}, BATCH, False),
                mirror=False,
                wider=2 * BOUND,
                last="0.5.13.post1",
            ),
        ),
    ),
    Driven(
        _of(
            "layers/attention/trtllm_mha_backend.py",
            "TRTLLMHAAttnBackend.init_forward_metadata_capture_cuda_graph",
            "TRTLLMHAAttnBackend.init_forward_metadata_replay_cuda_graph",
        ),
        (
            Case(
                "trtllm_mha.replays",
                (session(P32, "verify"), "tree"),
                besides="host_reads",
                last="0.5.12.post1",
            ),
        ),
    ),
    Driven(
        _of(
            "layers/attention/trtllm_mla_backend.py",
            "TRTLLMMLABackend.__init__",
            "TRTLLMMLABackend.get_verify_buffers_to_fill_after_draft",
        ),
        (
            Case(
                "tree_mask.drafted",
                ("eagle", "mla", CHAIN, LENS),
                {"total": 122},
                besides="mask",
                last="0.5.14",
            ),
        ),
    ),
    Driven(
        _of("layers/attention/trtllm_mla_backend.py", "TRTLLMMLABackend.init_cuda_graph_state"),
        (Case("default_server.graph_state", ("mla",)),),
    ),
    Driven(
        _of("layers/attention/trtllm_mla_backend.py", "TRTLLMMLAMultiStepDraftBackend.init_forward_metadata"),
        (
            Case(
                "draft_steps.eager",
                ("mla", CHAIN, BATCH, True),
                besides="indices launches",
                last="0.5.12.post1",
            ),
        ),
    ),
    Driven(
        _of(
            "layers/attention/trtllm_mla_backend.py",
            "TRTLLMMLAMultiStepDraftBackend.init_forward_metadata_replay_cuda_graph",
        ),
        (
            Case(
                "draft_steps.replays",
                ("mla", session(CHAIN, "draft decode"), True),
                besides="launches",
                last="0.5.12.post1",
            ),
        ),
    ),
    Driven(
        _of("layers/dcp/planner.py", "prepare_decode_context_parallel_metadata"),
        (Case("later_batches.without_context_parallelism", (LENS, 4), first="0.5.15"),),
    ),
    Driven(
        (
            *_of("layers/logits_processor.py", "LogitsProcessor.forward"),
            *_of(
                "speculative/eagle_draft_extend_cuda_graph_runner.py",
                "EAGLEDraftExtendCudaGraphRunner.capture_one_batch_size",
                "EAGLEDraftExtendCudaGraphRunner.capture_one_batch_size.run_once",
                "EAGLEDraftExtendCudaGraphRunner.capture_one_shape",
                "EAGLEDraftExtendCudaGraphRunner.capture_one_shape.run_once",
                "EAGLEDraftExtendCudaGraphRunner.execute",
                "EAGLEDraftExtendCudaGraphRunner.replay",
            ),
            *_of("speculative/eagle_worker_v2.py", "EagleDraftWorker._draft_extend_for_decode"),
        ),
        (
            Case(
                "tail_graphs.extended",
                (TAILS | {"backend": "triton"}, STEPS),
                besides="tails topk_p",
            ),
            # Without a GPU pages are looked up as 64 bits before they are written as 32.
            Case(
                "tail_graphs.extended",
                (TAILS | {"backend": "fa3"}, STEPS),
                besides="tails topk_p",
                wider=1024,
            ),
        ),
    ),
    Driven(
        _of("managers/mm_utils.py", "general_mm_embed_routine", "prepare_mm_inputs"),
        (Case("multimodal.embedded", ([3, 0, 8], 4, [True, False, True], True)),),
    ),
    Driven(
        _of("managers/overlap_utils.py", "FutureMap.__init__"),
        (
            Case(
                "lengths.new_map",
                ({},),
                {"algorithm": "EAGLE"},
                besides="needs_cpu_seq_lens",
                last="0.5.12.post1",
            ),
            Case("default_server.future_map", (), first="0.5.13"),
        ),
    ),
    Driven(
        _of(
            "managers/overlap_utils.py",
            "FutureMap.__init__",
            "FutureMap.alloc_future_indices",
            "FutureMap.resolve_future",
        ),
        (Case("drafts.future_map", ([["step", None]],), besides="gathers", last="0.5.12.post1"),),
    ),
    Driven(
        (
            *_of(
                "managers/overlap_utils.py",
                "FutureMap._resolve_spec_extras",
                "FutureMap.publish",
                "FutureMap.resolve_future",
                "FutureMap.resolve_seq_lens_cpu",
                "FutureMap.stash",
                "FutureMap.store_to_map",
            ),
            *_of("managers/scheduler.py", "Scheduler.run_batch"),
        ),
        (
            Case(
                "relays.steps",
                (
                    [
                        ["step", None],
                        ["step", None],
                        ["filter", [0, 2]],
                        ["step", None],
                        ["merge", 1],
                        ["step", None],
                    ],
                ),
                besides="moved",
                last="0.5.14",
            ),
        ),
    ),
    Driven(
        _of("managers/overlap_utils.py", "FutureMap.publish", "FutureMap.resolve_seq_lens_cpu"),
        (Case("relays.captured_lens", ("EAGLE", 1), first="0.5.15", last="0.5.18"),),
    ),
    Driven(
        _of(
            "managers/schedule_batch.py",
            "ScheduleBatch.filter_batch",
            "ScheduleBatch.maybe_wait_verify_done",
            "ScheduleBatch.merge_batch",
        ),
        (
            Case(
                "batches.run_steps",
                (True, STEP, [["filter", [0, 2]], ["merge", STEP | {"first_row": 10}]]),
                last="0.5.12.post1",
            ),
        ),
    ),
    Driven(
        _of("managers/schedule_batch.py", "ScheduleBatch.maybe_wait_verify_done"),
        (Case("batches.wait", (True, STEP), last="0.5.12.post1"),),
    ),
    Driven(
        _of("managers/schedule_batch.py", "set_mamba_track_indices_from_reqs"),
        (Case("default_server.tracked", (3,), first="0.5.13", last="0.5.15.post1"),),
    ),
    Driven(
        _of("managers/scheduler.py", "Scheduler._get_new_batch_prefill_raw"),
        (Case("cached_states.matched_and_turned_down", (), {"room": True}, first="0.5.13", last="0.5.14"),),
    ),
    Driven(
        _of("managers/scheduler.py", "Scheduler.init_model_worker"),
        (
            Case("default_server.starts", ("none",)),
            Case("default_server.starts", ("eagle",)),
        ),
    ),
    Driven(
        (
            *_of("managers/scheduler.py", "Scheduler.init_overlap"),
            *_of("managers/overlap_utils.py", "decide_needs_cpu_seq_lens"),
            *_of("speculative/eagle_worker_v2.py", "EAGLEWorkerV2.spec_v2_attn_backends"),
        ),
        (
            Case(
                "decisions.start",
                ("eagle", ["triton", "triton", "triton"], OVERLAP),
                besides="batches map logged",
                last="0.5.13.post1",
            ),
            *(
                Case("decisions.start", (kind, backends, OVERLAP), besides="logged", first="0.5.14")
                for kind, backends in (
                    ("eagle", ["triton", "triton", "triton"]),
                    ("eagle", ["reads", "triton", "triton"]),
                    (None, ["triton"]),
                )
            ),
        ),
    ),
    Driven(
        (
            *_of(
                "managers/scheduler_components/metrics_reporter.py",
                "SchedulerMetricsReporter._build_scheduled_request_metrics",
            ),
            *_of(
                "observability/scheduler_metrics_mixin.py",
                "SchedulerMetricsMixin._build_scheduled_request_metrics",
            ),
        ),
        (Case("metrics.forward_pass", (DECODE | {"mirror": "tensor"},)),),
    ),
    Driven(
        (
            *_of("managers/utils.py", "GenerationBatchResult.copy_to_cpu"),
            *_of("model_executor/forward_batch_info.py", "ForwardBatch.init_new"),
            *_of("speculative/base_spec_worker.py", "EagleDraftWorkerBase.prepare_for_draft_extend"),
            *_of("speculative/eagle_info_v2.py", "EagleVerifyInputV2Mixin.sample"),
            *_of("speculative/eagle_utils.py", "eagle_sample"),
            *_of("speculative/eagle_worker_common.py", "prepare_for_draft_extend", "run_eagle_verify"),
            *_of(
                "speculative/eagle_worker_v2.py",
                "EAGLEWorkerV2.verify",
                "EagleDraftWorker._draft_extend_for_decode",
            ),
        ),
        (Case("verified.step", (VERIFIED,), {"extends": True}, besides="operators", last="0.5.21"),),
    ),
    # Of several branches.
    Driven(
        (
            *_of("speculative/eagle_worker_common.py", "_finalize_accept_tree_path"),
            *_of("speculative/eagle_worker_v2.py", "EAGLEWorkerV2._finalize_accept_tree_path"),
        ),
        (
            Case(
                "verified.step",
                (VERIFIED | {"lens": [5, 9, 17], "topk": 3, "depth": 3, "seed": 1},),
                besides="operators",
                first="0.5.13",
                last="0.5.21",
            ),
        ),
    ),
    Driven(
        (
            *_of(
                "speculative/eagle_info.py",
                "EagleDraftExtendInput.prepare_extend_after_decode",
                "EagleDraftInput.prepare_extend_after_decode",
                "EagleVerifyInput.verify",
            ),
            *_of("speculative/eagle_worker.py", "EAGLEWorker.verify"),
        ),
        (
            Case(
                "accepted_tokens.steps",
                (BRANCHES,),
                besides="operators",
                last="0.5.12.post1",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_worker.py", "EAGLEWorker._draft_preprocess_decode"),
        (Case("accepted_tokens.drafted", (LENS,), last="0.5.12.post1"),),
    ),
    Driven(
        (
            *_of("model_executor/cuda_graph_runner.py", "CudaGraphRunner.replay_prepare"),
            *_of(
                "speculative/eagle_draft_cuda_graph_runner.py",
                "EAGLEDraftCudaGraphRunner.capture_one_batch_size",
            ),
            *_of("speculative/eagle_worker_v2.py", "EagleDraftWorker.draft"),
        ),
        tuple(
            Case(
                "head_graphs.verified",
                (TAILS | {"backend": backend}, [{"rows": [3, 5, 1], "lens": [9, 30, 2]}] * 2),
                besides="heads prepared",
                wider=wider,
                last="0.5.12.post1",
            )
            # As for tails.
            for backend, wider in (("triton", 0), ("fa3", 1024))
        ),
    ),
    Driven(
        (
            *_of(
                "speculative/eagle_draft_cuda_graph_runner.py", "EAGLEDraftCudaGraphRunner.capture_one_shape"
            ),
            *_of("speculative/eagle_worker_v2.py", "EagleDraftWorker.draft"),
        ),
        tuple(
            Case(
                "draft_graphs.drafted",
                (TAILS | {"backend": backend}, [{"rows": [3, 5, 1], "lens": [9, 30, 2]}] * 2),
                besides="noted whole",
                first="0.5.16",
            )
            for backend in ("triton", "fa3")
        ),
    ),
    Driven(
        _of("speculative/eagle_info.py", "EagleDraftInput.merge_batch"),
        (Case("batches.merged_drafts", (True, True, [1, 3])),),
    ),
    Driven(
        _of("mem_cache/memory_pool.py", "HybridReqToTokenPool.free_mamba_cache"),
        (Case("tracked_states.free_after_turns", (1,), last="0.5.12.post1"),),
    ),
    Driven(
        (
            *_of("model_executor/cuda_graph_runner.py", "CudaGraphRunner.replay"),
            *_of("model_executor/runner/decode_cuda_graph_runner.py", "DecodeCudaGraphRunner.load_batch"),
            *_of("speculative/base_spec_worker.py", "EagleDraftWorkerBase.prepare_for_draft"),
            *_of(
                "speculative/eagle_info_v2.py",
                "EagleDraftInputV2Mixin.prepare_for_v2_draft",
                "EagleVerifyInputV2Mixin.prepare_for_v2_verify",
            ),
            *_of("speculative/eagle_utils.py", "eagle_prepare_for_verify"),
            *_of("speculative/eagle_worker_common.py", "prepare_for_draft"),
        ),
        (
            Case(
                "step_inputs.prepared",
                ({"rows": [3, 1, 5], "lens": [4, 9, 17], "steps": 3, "topk": 1, "seed": 1},),
                last="0.5.21",
            ),
        ),
    ),
    Driven(
        _of("model_executor/cuda_graph_runner.py", "CudaGraphRunner.replay_prepare", "build_replay_fb_view"),
        (Case("graphs.target", (REPLAY, 4), besides="topk_p topk_index", last="0.5.13.post1"),),
    ),
    Driven(
        _of(
            "model_executor/forward_batch_info.py",
            "ForwardBatch._compute_mrope_positions",
            "ForwardBatch._compute_mrope_positions_decode",
        ),
        (Case("default_server.positions", ("DECODE", LENS)),),
    ),
    Driven(
        _of(
            "model_executor/forward_batch_info.py",
            "ForwardBatch._compute_mrope_positions",
            "ForwardBatch._compute_mrope_positions_extend",
        ),
        (Case("default_server.positions", ("EXTEND", LENS)),),
    ),
    Driven(
        _of("model_executor/forward_batch_info.py", "ForwardBatch._pad_inputs_to_size"),
        (Case("forward_batches.pad", (DECODE, 5, 1), last="0.5.13.post1"),),
    ),
    Driven(
        _of("model_executor/forward_batch_info.py", "ForwardBatch.init_new"),
        (
            Case("forward_batches.make", (DECODE | {"mode": "DECODE"},), last="0.5.13.post1"),
            Case("forward_batches.make", (DECODE | {"mode": "TARGET_VERIFY"},), last="0.5.13.post1"),
            Case("forward_batches.make", (DECODE | {"mode": "IDLE", "lens": []},), last="0.5.13.post1"),
            Case("forward_batches.make", (EXTEND | {"mode": "EXTEND"},), last="0.5.13.post1"),
            Case("forward_batches.make", (EXTEND | {"mode": "DRAFT_EXTEND_V2"},), last="0.5.13.post1"),
        ),
    ),
    Driven(
        _of("model_executor/runner/decode_cuda_graph_runner.py", "build_replay_fb_view"),
        (Case("default_server.replay_view", (LENS, 4), first="0.5.14", last="0.5.15.post1"),),
    ),
    Driven(
        _of(
            "model_executor/runner/prefill_cuda_graph_runner.py",
            "PrefillCudaGraphRunner._prepare_forward_metadata_for_replay",
        ),
        (
            Case("later_batches.prefill_graph", (LENS, True), {"full": False}, first="0.5.15"),
            Case("later_batches.prefill_graph", (LENS, False), {"full": False}, mirror=False, first="0.5.15"),
        ),
    ),
    Driven(
        _of("observability/scheduler_metrics_mixin.py", "SchedulerMetricsMixin._estimate_decode_perf"),
        (Case("metrics.estimate", (DECODE | {"mirror": "tensor"}, 8), last="0.5.12.post1"),),
    ),
    Driven(
        _of("observability/scheduler_metrics_mixin.py", "SchedulerMetricsMixin.report_decode_stats"),
        (Case("metrics.decode_total", (DECODE | {"mirror": "tensor"},), last="0.5.12.post1"),),
    ),
    Driven(
        _of("speculative/base_spec_worker.py", "BaseSpecWorker.spec_v2_attn_backends"),
        (Case("decisions.named", ("silent",), last="0.5.13.post1"),),
    ),
    Driven(
        _of("speculative/eagle_draft_cuda_graph_runner.py", "EAGLEDraftCudaGraphRunner.replay"),
        (Case("graphs.draft", (REPLAY, 1), besides="copies", last="0.5.13.post1"),),
    ),
    Driven(
        _of(
            "speculative/eagle_draft_extend_cuda_graph_runner.py", "EAGLEDraftExtendCudaGraphRunner.__init__"
        ),
        (Case("draft_extend_memory.held", (P64 | {"steps": 3}, 4, 32, (96, 96)), last="0.5.22"),),
    ),
    Driven(
        _of(
            "speculative/eagle_draft_extend_cuda_graph_runner.py",
            "EAGLEDraftExtendCudaGraphRunner.capture_one_batch_size.run_once",
        ),
        (Case("graphs.capture", ("DRAFT_EXTEND_V2", 1), besides="calls rows", last="0.5.13.post1"),),
    ),
    Driven(
        _of(
            "speculative/eagle_draft_extend_cuda_graph_runner.py",
            "EAGLEDraftExtendCudaGraphRunner.capture_one_shape.run_once",
        ),
        (Case("default_server.captured_draft_extend", (3,), first="0.5.14", last="0.5.16"),),
    ),
    Driven(
        _of("speculative/eagle_draft_extend_cuda_graph_runner.py", "EAGLEDraftExtendCudaGraphRunner.execute"),
        (
            Case(
                "default_server.replayed_draft_extend",
                ("eagle", LENS, 4),
                first="0.5.14",
                last="0.5.15.post1",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_draft_extend_cuda_graph_runner.py", "EAGLEDraftExtendCudaGraphRunner.replay"),
        (
            Case(
                "graphs.draft_extend",
                (REPLAY, 4, "DRAFT_EXTEND_V2"),
                besides="topk_p topk_index",
                last="0.5.13.post1",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_info_v2.py", "EagleDraftInputV2Mixin.prepare_for_decode"),
        (
            Case(
                "lengths.decode_step",
                (
                    True,
                    {
                        "batch": STEP,
                        "advanced": [41, 66, 18],
                        "kept": [[48, 40], [70, 65], [20, 17]],
                        "page_size": 1,
                        "steps": 3,
                        "published": True,
                    },
                ),
                last="0.5.12.post1",
            ),
        ),
    ),
    Driven(
        _of(
            "speculative/eagle_info_v2.py", "EagleDraftInputV2Mixin.prepare_for_extend_to_fill_draft_kvcache"
        ),
        (Case("forward_batches.prepare_draft_extend", (DECODE, 4), {"graph": True}, last="0.5.13.post1"),),
    ),
    Driven(
        _of("speculative/eagle_info_v2.py", "EagleVerifyInputV2Mixin.prepare_for_v2_verify"),
        (Case("forward_batches.prepare_verify", (DECODE, 4), {"graph": True}, last="0.5.13.post1"),),
    ),
    Driven(
        _of("speculative/eagle_worker_common.py", "build_eagle_verify_input"),
        (
            Case("default_server.verify_input", (LENS,), first="0.5.16"),
            Case(
                "default_server.verify_input",
                (LENS,),
                {"mirror": False},
                besides="size",
                mirror=False,
                first="0.5.16",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_worker_common.py", "run_eagle_verify"),
        (Case("default_server.planned", ("eagle_worker_common:.run_eagle_verify",), first="0.5.16"),),
    ),
    Driven(
        _of("session/streaming_session.py", "StreamingSession.try_cache_finished_req"),
        (Case("tracked_states.slots_of_a_session", (), {"aborted": False}, last="0.5.12.post1"),),
    ),
    Driven(
        (
            *_of("speculative/eagle_utils.py", "per_step_draft_out_cache_loc"),
            *_of("speculative/eagle_worker_v2.py", "EagleDraftWorker.draft_forward"),
        ),
        (Case("drafts.draft", (DRAFT,), besides="operators"),),
    ),
    Driven(
        _of("speculative/eagle_worker.py", "EAGLEWorker.draft_forward"),
        (Case("drafts.draft", (DRAFT | {"first": True},), besides="operators", last="0.5.12.post1"),),
    ),
    Driven(
        (
            *_of("speculative/eagle_worker_v2.py", "EAGLEWorkerV2._mamba_verify_update"),
            *_of("speculative/spec_utils.py", "commit_mamba_states_after_verify"),
        ),
        tuple(
            Case(
                "linear_states.committed",
                (STATES | {"tracked": tracked},),
                besides="operators",
                last="0.5.14",
            )
            for tracked in (None, [7, 9])
        ),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EAGLEWorkerV2._build_trivial_verify_input"),
        (
            Case("default_server.trivial_verify_input", (LENS,), first="0.5.14"),
            Case(
                "default_server.trivial_verify_input",
                (LENS,),
                {"mirror": False},
                besides="size",
                mirror=False,
                first="0.5.14",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EAGLEWorkerV2.spec_v2_attn_backends"),
        (Case("decisions.named", ("eagle",), last="0.5.12.post1"),),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EAGLEWorkerV2.verify"),
        (
            Case(
                "default_server.planned",
                ("eagle_worker_v2:EAGLEWorkerV2.verify",),
                first="0.5.13",
                last="0.5.15.post1",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EagleDraftWorker._capture_cuda_graphs"),
        (Case("default_server.captured", (["triton", "mha", "mla"],), first="0.5.14"),),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EagleDraftWorker._draft_extend_for_decode"),
        (
            Case("drafts.draft_extend", (DRAFT, [1, 2, 3]), besides="operators topk_p", last="0.5.13.post1"),
            Case(
                "default_server.planned",
                ("eagle_worker_v2:EagleDraftWorker._draft_extend_for_decode",),
                first="0.5.14",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EagleDraftWorker._draft_extend_for_prefill"),
        (
            Case(
                "prefills.draft_input",
                ([{"prompt": [30, 31, 32], "start": 0, "end": 3}], [900]),
                {"vocabulary": 1000},
                last="0.5.12.post1",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EagleDraftWorker.draft"),
        (
            Case(
                "tree_mask.drafted",
                ("eagle", "triton", CHAIN, LENS),
                {"total": 122},
                besides="mask",
                last="0.5.15.post1",
            ),
            Case(
                "tree_mask.drafted",
                ("eagle", "mla", CHAIN, LENS),
                {"total": 122},
                besides="mask",
                last="0.5.14",
            ),
            Case(
                "tree_mask.drafted",
                ("eagle", "mha", CHAIN, LENS),
                {"total": 122},
                besides="mask",
                last="0.5.14",
            ),
            Case(
                "tree_mask.drafted",
                ("eagle", "triton", CHAIN, LENS),
                {"total": None},
                besides="mask total",
                mirror=False,
                last="0.5.15.post1",
            ),
        ),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EagleDraftWorker.draft_forward"),
        (Case("drafts.draft", (DRAFT,), besides="operators", last="0.5.15.post1"),),
    ),
    Driven(
        _of("speculative/eagle_worker_v2.py", "EagleDraftWorker.init_cuda_graphs"),
        (Case("workers.captured", (["triton", "trtllm mla", "flashinfer mla", None],), last="0.5.13.post1"),),
    ),
    Driven(
        _of(
            "speculative/multi_layer_eagle_draft_extend_cuda_graph_runner.py",
            "MultiLayerEagleDraftExtendCudaGraphRunner.execute",
        ),
        (
            Case(
                "default_server.replayed_draft_extend",
                ("multi-layer", LENS, 4),
                first="0.5.14",
                last="0.5.15.post1",
            ),
        ),
    ),
    Driven(
        _of(
            "speculative/multi_layer_eagle_draft_extend_cuda_graph_runner.py",
            "MultiLayerEagleDraftExtendCudaGraphRunner.replay",
        ),
        (
            Case(
                "graphs.multi_layer_draft_extend",
                (REPLAY, 4),
                besides="topk_p topk_index",
                last="0.5.13.post1",
            ),
        ),
    ),
    Driven(
        _of(
            "speculative/multi_layer_eagle_worker_v2.py",
            "MultiLayerEagleDraftWorker._draft_extend_for_decode",
        ),
        (
            Case(
                "default_server.planned",
                ("multi_layer_eagle_worker_v2:MultiLayerEagleDraftWorker._draft_extend_for_decode",),
                first="0.5.13",
            ),
        ),
    ),
    Driven(
        _of("speculative/multi_layer_eagle_worker_v2.py", "MultiLayerEagleDraftWorker.draft"),
        (
            Case(
                "tree_mask.drafted",
                ("multi-layer", "triton", CHAIN, LENS),
                {"total": 122},
                besides="mask",
                last="0.5.15.post1",
            ),
            Case(
                "tree_mask.drafted",
                ("multi-layer", "mla", CHAIN, LENS),
                {"total": 122},
                besides="mask",
                last="0.5.14",
            ),
            Case(
                "tree_mask.drafted",
                ("multi-layer", "mha", CHAIN, LENS),
                {"total": 122},
                besides="mask",
                last="0.5.14",
            ),
        ),
    ),
    Driven(
        _of("speculative/multi_layer_eagle_worker_v2.py", "MultiLayerEagleWorkerV2.spec_v2_attn_backends"),
        (Case("decisions.named", ("multi-layer",), last="0.5.13.post1"),),
    ),
    Driven(
        _of("speculative/multi_layer_eagle_worker_v2.py", "MultiLayerEagleWorkerV2.verify"),
        (
            Case(
                "default_server.planned",
                ("multi_layer_eagle_worker_v2:MultiLayerEagleWorkerV2.verify",),
                first="0.5.13",
                last="0.5.15.post1",
            ),
        ),
    ),
)

_HOOK = "only a plan stream calls it, and it is off by default"
UNDRIVEN = {
    f"srt/layers/attention/{name}.update_verify_buffers_to_fill_after_draft": _HOOK
    for name in (
        "hybrid_attn_backend.py::HybridAttnBackend",
        "hybrid_linear_attn_backend.py::HybridLinearAttnBackend",
        "hybrid_linear_attn_backend.py::MambaAttnBackendBase",
        "trtllm_mha_backend.py::TRTLLMHAAttnBackend",
        "trtllm_mla_backend.py::TRTLLMMLABackend",
    )
} | {
    "srt/hardware_backend/npu/attention/ascend_hybrid_linear_attn_backend.py"
    "::AscendHybridLinearAttnBackend.update_mamba_state_after_mtp_verify": "it runs another accelerator's kernels"
}
"""The functions without a case, each with the reason."""


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def cases(release: str) -> Iterator[tuple[frozenset[str], Case]]:
    """Yield the cases for a release, each with the functions that it runs where they are touched."""
    for driven in DRIVEN:
        for case in driven.cases:
            if _numbers(case.first) <= _numbers(release) <= _numbers(case.last):
                yield frozenset(driven.functions), case
