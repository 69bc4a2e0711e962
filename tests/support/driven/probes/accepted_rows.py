"""A draft-extend of the v2 worker, its graph's runner and the logits processor; the rows that the LM head has."""

from __future__ import annotations

import importlib.util
import os
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessor, LogitsProcessorOutput
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.speculative import eagle_draft_extend_cuda_graph_runner as runners
from sglang.srt.speculative import eagle_worker_v2
from sglang.srt.speculative.eagle_draft_extend_cuda_graph_runner import EAGLEDraftExtendCudaGraphRunner
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker

from . import repeatable
from .decisions import bare

VOCABULARY, HIDDEN = 11, 3
_CONTEXT = "sglang.srt.model_executor.forward_context"
_NOTHING = SimpleNamespace(capture=lambda **_: None, replay=lambda: None)


class _Processor(LogitsProcessor):
    """The tree's own logits processor, except the product, which records its number of rows."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.rows: list[int] = []
        # Of later trees.
        self.expected_aux_hidden_states, self.keep_last_hidden_states = None, False
        self.weight = torch.randn((HIDDEN, VOCABULARY), generator=torch.Generator().manual_seed(1))

    def _get_logits(self, hidden_states: Any, lm_head: Any, logits_metadata: Any, *_: Any) -> Any:
        self.rows.append(len(hidden_states))
        logits = hidden_states @ self.weight
        if logits_metadata.next_token_logits_buffer is not None:
            logits_metadata.next_token_logits_buffer.copy_(logits)
            return logits_metadata.next_token_logits_buffer
        return logits


class _Model:
    """Its states follow from tokens and the target's states; it calls the processor, or has a head of its own."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.processor = _Processor()
        self.asks, self.layers = case.get("asks", True), case.get("layers", 0)
        self.embedding = torch.randn((100, HIDDEN), generator=torch.Generator().manual_seed(2))

    def forward(self, tokens: Any, _: Any, batch: Any) -> Any:
        states = self.embedding[tokens] + batch.spec_info.hidden_states
        if not self.asks:
            self.processor.rows.append(len(states))
            return LogitsProcessorOutput(
                next_token_logits=states @ self.processor.weight, hidden_states=states
            )
        layers = [states + layer for layer in range(self.layers)]
        return self.processor.forward(tokens, states, None, batch, layers or None)


def _captured(run: Any) -> Any:
    """Run what a graph captures; in trees with a context for it a model reads the backend from there."""
    if importlib.util.find_spec(_CONTEXT) is not None:
        importlib.import_module(_CONTEXT).get_attn_backend()
    return run()


class Graph:
    """Runs what was captured again, into the same results."""

    run: Any
    left: Any

    def pool(self) -> None:
        """Return the memory that graphs share."""

    def capture(self, run: Any) -> Any:
        """Record what a graph does, and where its results are."""
        self.run, self.left = run, _captured(run)
        return self.left


class FullCudaGraphBackend:
    """The graph of each size, which a replay runs."""

    def __init__(self, runner: Any) -> None:
        self.graphs: dict[Any, Any] = {}
        self.left: dict[Any, Any] = {}
        self.runner = runner
        self._outputs = self.left
        self._tp_group = SimpleNamespace(world_size=1)

    def capture_one(self, key: Any, run: Any, **_: Any) -> None:
        """Record what a graph does, and where its results are."""
        self.graphs[key], self.left[key] = run, _captured(run)

    def replay(self, key: Any, *_: Any) -> Any:
        """Compute into the same memory again."""
        found, left = self.graphs[key](), self.left[key]
        if isinstance(left, tuple):
            for into, new in zip(left, found, strict=True):
                into.copy_(new.clone())
            return left
        for name in ("next_token_logits", "hidden_states"):
            getattr(left, name).copy_(getattr(found, name).clone())
        return left


def _runner(case: dict[str, Any], draft_runner: Any, **others: Any) -> Any:
    width, sizes = case["draft_tokens"], case["captured"]
    runners.set_dp_buffer_len = runners.set_is_extend_in_batch = lambda *_: None
    runners.maybe_flashinfer_autotune_speculative_draft = lambda *_, **__: None
    runner: Any = bare(EAGLEDraftExtendCudaGraphRunner)
    backend = FullCudaGraphBackend(runner)
    size = max(sizes)
    tokens = size * width
    gathered = torch.zeros(1, dtype=torch.int32) if case.get("gathered") else None
    # Its target has no graphs.
    worker = bare(EagleDraftWorker)
    worker.topk, worker.target_worker = 1, SimpleNamespace(model_runner=SimpleNamespace())
    buffers = SimpleNamespace(
        **{
            name: torch.zeros(tokens, dtype=torch.int64)
            for name in ("input_ids", "out_cache_loc", "positions")
        },
        req_pool_indices=torch.zeros(size, dtype=torch.int64),
        **{
            name: torch.ones(size, dtype=torch.int32)
            for name in (
                *("seq_lens", "seq_lens_cpu", "num_correct_drafts", "num_accept_tokens"),
                *("num_accepted_drafts", "num_accepted_tokens", "extend_seq_lens"),
            )
        },
        hidden_states=torch.zeros(tokens, HIDDEN),
        mrope_positions=torch.zeros(3, tokens, dtype=torch.int64),
        next_token_logits_buffer=torch.zeros(tokens, VOCABULARY),
        global_num_tokens_gpu=gathered,
        global_num_tokens_for_logprob_gpu=gathered,
        dsa_seed_topk_capture=None,
        mamba_track_indices=None,
        select_index=torch.arange(size) * width + width - 1,
    )
    plans = (
        *("init_forward_metadata_capture_cuda_graph", "init_forward_metadata_replay_cuda_graph"),
        *("init_forward_metadata_out_graph", "init_forward_metadata_in_graph"),
    )
    vars(runner).update(
        buffers=buffers,
        capture_bs=sizes,
        max_bs=size,
        num_tokens_per_bs=width,
        captured_req_width=width,
        seq_len_fill_value=1,
        topk=1,
        stream=None,
        padded_static_len=-1,
        forward_mode=ForwardMode.DRAFT_EXTEND_V2,
        require_gathered_buffer=bool(case.get("gathered")),
        require_mlp_tp_gather=False,
        require_mlp_sync=False,
        enable_torch_compile=False,
        require_attn_tp_gather=False,
        deepep_adapter=_NOTHING,
        device_module=SimpleNamespace(Event=lambda: SimpleNamespace(record=lambda: None)),
        extend_seq_lens_cpu=[width] * size,
        draft_extend_attn_backend=SimpleNamespace(**{name: lambda *_, **__: None for name in plans}),
        model_runner=draft_runner,
        eagle_worker=worker,
        backend=backend,
        output_buffers=backend.left,
        _create_graph=Graph,
        _capture_init=lambda _: None,
        _capture_graph=lambda graph, _pool, _stream, run: graph.capture(run),
        _replay=lambda _: backend.replay(runner.bs),
        _replay_graph=backend.replay,
        _make_graph_key=lambda size, *_: size,
    )
    vars(runner).update(others)
    if not hasattr(runner, "capture_one_shape"):
        del runner.backend
    for size in sorted(sizes, reverse=True):
        if hasattr(runner, "capture_one_shape"):
            runner.capture_one_shape(size, None)
        else:
            graph, _ = runner.capture_one_batch_size(size, None)
            backend.graphs[size], backend.left[size] = graph.run, graph.left
    draft_runner.model.processor.rows.clear()
    return runner


def worker_of(case: dict[str, Any], model: Any = None, **of_runner: Any) -> Any:
    """Return a draft's worker; ``of_runner`` are further attributes of its graphs' runner."""
    worker = bare(EagleDraftWorker)
    draft_runner = SimpleNamespace(
        model=model or _Model(case),
        server_args=SimpleNamespace(
            enable_return_hidden_states=False,
            speculative_use_rejection_sampling=False,
            enable_dp_attention=case.get("ranks", False),
            enable_two_batch_overlap=False,
        ),
        canary_manager=None,
        kv_index_translator=getattr(of_runner.get("draft_extend_attn_backend"), "kv_index_translator", None),
        device_timer=None,
        tp_group=SimpleNamespace(world_size=1),
        hisparse_coordinator=None,
        req_to_token_pool=None,
        token_to_kv_pool=None,
        spec_algorithm=SimpleNamespace(is_eagle=lambda: True),
        model_config=SimpleNamespace(model_is_mrope=False),
    )

    def forward(batch: Any, **_: Any) -> Any:
        return SimpleNamespace(logits_output=draft_runner.model.forward(batch.input_ids, None, batch))

    draft_runner.forward = forward
    runner = _runner(case, draft_runner, **of_runner) if case["graph"] else None
    if runner is not None:
        runner.can_run = runner.can_run_graph = lambda _: True
    vars(worker).update(
        topk=1,
        speculative_num_steps=case["draft_tokens"] - 1,
        speculative_num_draft_tokens=case["draft_tokens"],
        device="cpu",
        draft_runner=draft_runner,
        server_args=draft_runner.server_args,
        plan_stream=None,
        plan_stream_ctx=nullcontext(),
        cuda_graph_runner_for_draft_extend=runner,
        seed_dsa_topk_from_draft_extend=False,
    )
    return worker


def batch_of(case: dict[str, Any], count: int, number: int) -> Any:
    tokens = count * case["draft_tokens"]
    generator = torch.Generator().manual_seed(3 + number)
    left = SimpleNamespace(
        hidden_states=torch.randn((tokens, HIDDEN), generator=generator),
        num_correct_drafts=None,
        num_accept_tokens=None,
        num_accepted_drafts=None,
        num_accepted_tokens=None,
        select_index=None,
    )
    return ForwardBatch(
        forward_mode=ForwardMode.DRAFT_EXTEND_V2,
        batch_size=count,
        input_ids=torch.randint(100, (tokens,), generator=generator),
        req_pool_indices=torch.arange(count),
        seq_lens=torch.ones(count, dtype=torch.int32),
        out_cache_loc=torch.arange(tokens),
        seq_lens_sum=count,
        positions=torch.arange(tokens),
        extend_seq_lens=torch.full((count,), case["draft_tokens"], dtype=torch.int32),
        capture_hidden_mode=CaptureHiddenMode.FULL if case.get("full", True) else CaptureHiddenMode.LAST,
        spec_info=left,
    )


def extended_by_fork(case: dict[str, Any], accepted: list[int]) -> list[list[float]]:
    """Replay a draft-extend as a fork's worker does that names no rows; return its logits."""
    forks = bare(type("ForksWorker", (EagleDraftWorker,), {}))
    runner = worker_of(case | {"graph": True}, eagle_worker=forks).cuda_graph_runner_for_draft_extend
    batch = batch_of(case, len(accepted), 0)
    left = (runner.execute if hasattr(runner, "execute") else runner.replay)(batch)
    rows: list[list[float]] = left.next_token_logits.tolist()
    return rows


@repeatable
def extended(case: dict[str, Any], batches: list[list[int]], disable: str = "") -> list[dict[str, Any]]:
    """Extend the draft by batches with these accepted lengths; return what each passes to the next draft.

    It is read after the last batch, as another step may have used a graph's memory by then. ``heads`` are the rows of
    each product with the LM head.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    eagle_worker_v2.get_spec = lambda: SimpleNamespace(speculative_use_rejection_sampling=False)
    worker, left = worker_of(case), []
    for number, accepted in enumerate(batches):
        batch = batch_of(case, len(accepted), number)
        prepares = {
            "EagleDraftInput": lambda **_: SimpleNamespace(
                prepare_for_extend_to_fill_draft_kvcache=lambda *_: batch  # noqa: B023 - called in this round.
            ),
            "EagleDraftExtendInput": lambda **_: None,
            "prepare_for_draft_extend": lambda *_, **__: batch,  # noqa: B023
        }
        vars(eagle_worker_v2).update(prepares)
        worker.prepare_for_draft_extend = prepares["prepare_for_draft_extend"]
        result = SimpleNamespace(
            logits_output=SimpleNamespace(hidden_states=None),
            accept_lens=torch.tensor(accepted, dtype=torch.int32),
            next_token_ids=torch.zeros(1, dtype=torch.int32),
            next_draft_input=SimpleNamespace(),
        )
        worker._draft_extend_for_decode(SimpleNamespace(seq_lens=torch.tensor(accepted)), result)
        rows = worker.draft_runner.model.processor.rows
        left.append((result.next_draft_input, list(rows)))
        rows.clear()
    return [
        {
            "tokens": following.topk_index.tolist(),
            "scores": following.topk_p.tolist(),
            "states": following.hidden_states.tolist(),
            "heads": heads,
        }
        for following, heads in left
    ]
