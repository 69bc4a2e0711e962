"""Drafts of one chain, prepared and drafted by the tree's own worker, runner and backends of all steps."""

from __future__ import annotations

import dataclasses
import inspect
import os
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.flashattention_backend import FlashAttentionMultiStepBackend
from sglang.srt.layers.attention.triton_backend import TritonMultiStepDraftBackend
from sglang.srt.model_executor import forward_context
from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode
from sglang.srt.speculative import eagle_draft_cuda_graph_runner as drafts
from sglang.srt.speculative import eagle_worker_v2
from sglang.srt.speculative.eagle_info import EagleDraftInput, EagleVerifyInput
from sglang.srt.speculative.eagle_utils import TreeMaskMode
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from patchkit.runtime.step_inputs import verify_slots

from . import accepted_rows, repeatable, tail_graphs
from . import attention_backends as backends
from .decisions import bare

HIDDEN, VOCABULARY, POISON = 3, 23, 5
_SLOTS = "prepared_out_cache_loc"
_NOTHING = SimpleNamespace(capture=lambda **_: None, replay=lambda: None)
_UNSAMPLED = SimpleNamespace(speculative_use_rejection_sampling=False)


class FullCudaGraphBackend(accepted_rows.FullCudaGraphBackend):
    """The graph of each size; a draft that is not sampled leaves no probabilities."""

    def replay(self, key: Any, *_: Any) -> Any:
        """Compute into the same memory again."""
        left = self.left[key]
        for into, new in zip(left, self.graphs[key](), strict=True):
            if into is not None:
                into.copy_(new.clone())
        return left


class _DecodeCudaGraphRunner(SimpleNamespace):
    """The target's runner, of which no draft has more than the name."""


_DecodeCudaGraphRunner.__name__ = "DecodeCudaGraphRunner"


class _Draft:
    """The draft's runner: each token is written to its slot, and logits follow from all that its request then has."""

    def __init__(self, pool: Any, translator: Any, *, standalone: bool) -> None:
        slots = int(pool.req_to_token.max()) + 1
        generator = torch.Generator().manual_seed(1)
        self.embedding = torch.randn((VOCABULARY, HIDDEN), generator=generator, dtype=torch.float64)
        self.head = torch.randn((HIDDEN, VOCABULARY), generator=generator, dtype=torch.float64)
        self.cache = torch.randn((slots, HIDDEN), generator=generator, dtype=torch.float64)
        self.kv_index_translator, self.req_to_token_pool = translator, pool
        self.server_args = SimpleNamespace(**vars(_UNSAMPLED))
        self.spec_algorithm = SpeculativeAlgorithm.STANDALONE if standalone else SpeculativeAlgorithm.EAGLE
        self.model_config = SimpleNamespace(
            vocab_size=VOCABULARY,
            model_is_mrope=False,
            hf_config=SimpleNamespace(architectures=["LlamaForCausalLMEagle"]),
        )
        self.tp_group = SimpleNamespace(world_size=1, barrier=lambda: None)
        self.token_to_kv_pool = self.canary_manager = self.device_timer = self.hisparse_coordinator = None

    def forward(self, batch: Any, **_: Any) -> Any:
        """Run one step of the draft with the backend of that step."""
        states = self.embedding[batch.input_ids] + batch.positions[:, None] / 7
        given = batch.spec_info.hidden_states
        if given is not None:
            states = states + given / 3
        self.cache[batch.out_cache_loc] = states
        attended = backends.attended(
            forward_context.get_attn_backend(), batch.batch_size, "decode_cuda_graph_metadata"
        )
        states = states + torch.stack([self.cache[slots].sum(0) for slots in attended]) / 50
        output = SimpleNamespace(
            next_token_logits=states @ self.head, hidden_states=None if given is None else states
        )
        return SimpleNamespace(logits_output=output)


def _steps(case: dict[str, Any]) -> tuple[Any, Any]:
    """Return the backend of all steps of a draft, and what finds its slots."""
    steps, largest = case["draft_tokens"] - 1, max(case["captured"])
    parts = [tail_graphs._bare_backend(case) for _ in range(steps - 1)]
    table = parts[0].req_to_token
    # The first row is that of padding, as in the tree's pool.
    table[0] = 0
    translator = tail_graphs._translator(table)
    pool = SimpleNamespace(req_to_token=table, free_slots=list(range(1, len(table))))
    kind = TritonMultiStepDraftBackend if case["backend"] == "triton" else FlashAttentionMultiStepBackend
    made: Any = bare(kind)
    vars(made).update(
        dict.fromkeys(
            (
                *("model_runner", "forward_metadata", "token_to_kv_pool", "sliding_window_size"),
                *("window_kv_indptr", "cuda_graph_window_kv_indices"),
            )
        ),
        topk=1,
        speculative_num_steps=steps,
        attn_backends=parts,
        kv_indptr=torch.zeros((steps, largest + 1), dtype=torch.int32),
        max_context_len=tail_graphs.CONTEXT,
        num_head=1,
        device="cpu",
        req_to_token_pool=pool,
        pool_len=table.shape[1],
        page_size=1,
        draft_window_size=0,
        draft_sink_size=0,
        kv_index_translator=translator,
        window_rail=False,
    )
    for step, each in enumerate(parts):
        vars(each).update(
            req_to_token=table,
            kv_index_translator=translator,
            speculative_step_id=step,
            skip_prefill=True,
            static_kv_splits=True,
            enable_deterministic=False,
            # 0.5.17 and 0.5.18 have these in a translator's place.
            _unified_dense=False,
            _unified_hooks=SimpleNamespace(v2p_page_table=None, kernel_page_multiplier=1),
            kv_indptr=made.kv_indptr[step],
        )
    with backends.OnCpu():
        made.init_cuda_graph_state(largest, largest)
    return made, pool


def _runner(case: dict[str, Any], worker: Any) -> Any:
    """Return the draft's own runner, with its graphs captured."""
    sizes, steps = case["captured"], case["draft_tokens"] - 1
    size = max(sizes)
    vars(drafts).update(
        set_dp_buffer_len=lambda *_: None,
        set_is_extend_in_batch=lambda *_: None,
        maybe_flashinfer_autotune_speculative_draft=lambda *_, **__: None,
        get_spec=lambda: _UNSAMPLED,
    )
    wide = ("input_ids", "req_pool_indices", "positions")
    long = ("seq_lens", "seq_lens_cpu", "extend_seq_lens")
    filled = {
        **{name: torch.zeros(size, dtype=torch.int64) for name in wide},
        **{name: torch.ones(size, dtype=torch.int64) for name in long},
        "out_cache_loc": torch.zeros(size * steps, dtype=torch.int64),
        "mrope_positions": torch.zeros(3, size, dtype=torch.int64),
        "topk_p": torch.zeros(size, 1),
        "topk_index": torch.zeros(size, 1, dtype=torch.int64),
        # A draft model of its own takes no states.
        "hidden_states": None if case.get("standalone") else torch.zeros(size, HIDDEN, dtype=torch.float64),
    }
    fields = [each.name for each in dataclasses.fields(drafts.EagleDraftInputBuffers)]
    made: Any = bare(drafts.EAGLEDraftCudaGraphRunner)
    vars(made).update(
        eagle_worker=worker,
        model_runner=worker.draft_runner,
        draft_attn_backend=worker.draft_attn_backend,
        device="cpu",
        buffers=drafts.EagleDraftInputBuffers(**dict.fromkeys(fields) | filled),
        temperatures=torch.ones(size, 1),
        top_ks=torch.ones(size, dtype=torch.int32),
        capture_bs=sizes,
        max_bs=size,
        captured_req_width=1,
        speculative_num_steps=steps,
        topk=1,
        seq_len_fill_value=1,
        extend_seq_lens_cpu=[1] * size,
        deepep_adapter=_NOTHING,
        # It selects a layout of the model's, which is none here.
        model_context=nullcontext,
        **dict.fromkeys(
            (
                *("require_mlp_tp_gather", "require_attn_tp_gather", "require_gathered_buffer"),
                *("require_mlp_sync", "disable_padding", "enable_torch_compile"),
            ),
            False,
        ),
    )
    made.backend = FullCudaGraphBackend(made)
    for each in sorted(sizes, reverse=True):
        made.capture_one_shape(each, None)
    return made


def _init_new(batch: Any, runner: Any, kv_loc_plan: Any = None, write_cols: Any = None, **_: Any) -> Any:
    """Return the forward batch of a draft, whose constructor takes what a whole scheduler has."""
    made = backends.forward_batch(
        "draft decode",
        batch_size=len(batch.seq_lens),
        positions=batch.spec_info.positions,
        **{
            name: getattr(batch, name)
            for name in (
                *("req_pool_indices", "seq_lens", "seq_lens_cpu", "seq_lens_sum"),
                *("out_cache_loc", "spec_info"),
            )
        },
    )
    translator = runner.kv_index_translator
    # Since 0.5.22 a batch has a plan of its slots.
    if hasattr(translator, "own_plan"):
        plan = translator.own_plan(made) if kv_loc_plan is None else kv_loc_plan
        plan.bind(made, translator, cols=write_cols)
    return made


def _worker(case: dict[str, Any]) -> Any:
    # Compiled, it would compute the same, after a minute.
    torch.compiler.set_stance("force_eager")
    ForwardBatch.init_new = staticmethod(_init_new)
    # On a GPU one kernel, which is interpreted here, finds a token and writes it to its place.
    vars(eagle_worker_v2).update(get_spec=lambda: _UNSAMPLED, _is_cuda=True)
    width = case["draft_tokens"]
    attention, pool = _steps(case)
    translator = attention.kv_index_translator
    draft = _Draft(pool, translator, standalone=case.get("standalone", False))
    target = SimpleNamespace(
        decode_cuda_graph_runner=_DecodeCudaGraphRunner(), kv_index_translator=translator
    )
    generator = torch.Generator().manual_seed(7)
    worker: Any = bare(eagle_worker_v2.EagleDraftWorker)
    vars(worker).update(
        topk=1,
        speculative_num_steps=width - 1,
        speculative_num_draft_tokens=width,
        draft_runner=draft,
        draft_attn_backend=attention,
        server_args=draft.server_args,
        req_to_token_pool=pool,
        target_worker=SimpleNamespace(model_runner=target),
        tree_mask_mode=TreeMaskMode.QLEN_ONLY,
        hot_token_id=torch.randperm(VOCABULARY, generator=generator) if case.get("hot") else None,
        plan_stream=None,
        device="cpu",
        seed_dsa_topk_from_draft_extend=False,
        index_share_for_mtp_iteration=False,
        _topk1_parents_prealloc=torch.arange(-1, width - 2).repeat(max(case["captured"]), 1),
        _topk1_score_indices_prealloc=torch.arange(width - 1).repeat(max(case["captured"]), 1),
    )
    worker.cuda_graph_runner = _runner(case, worker)
    return worker


def _batch(case: dict[str, Any], step: dict[str, Any], number: int) -> Any:
    count, generator = len(step["rows"]), torch.Generator().manual_seed(number)
    lens, mirrored = torch.tensor(step["lens"]), step.get("mirror", False)
    return SimpleNamespace(
        forward_mode=ForwardMode.DECODE,
        req_pool_indices=torch.tensor(step["rows"]),
        seq_lens=lens,
        seq_lens_cpu=lens.clone() if mirrored else None,
        seq_lens_sum=sum(step["lens"]) if mirrored else None,
        out_cache_loc=None,
        multimodal_inputs=[None] * count,
        token_to_kv_pool_allocator=SimpleNamespace(page_size=1),
        device="cpu",
        spec_info=EagleDraftInput(
            topk_p=torch.ones(count, 1),
            topk_index=torch.randint(VOCABULARY, (count, 1), generator=generator),
            hidden_states=None
            if case.get("standalone")
            else torch.randn((count, HIDDEN), generator=generator, dtype=torch.float64),
        ),
    )


def _noting(target: Any, built: list[dict[str, Any]]) -> Any:
    """Return what takes the place of the function that builds a verify: it notes what it is called with."""
    asked = inspect.signature(eagle_worker_v2.build_eagle_verify_input)
    has_slots = any(each.name == _SLOTS for each in dataclasses.fields(EagleVerifyInput))

    def build(*given: Any, **named: Any) -> Any:
        found = asked.bind(*given, **named).arguments
        assert found.pop("target_worker") is target
        assert found.pop("draft_input") is found.pop("batch").spec_info
        # Graphs write to the same memory in the next step.
        built.append({name: backends.plain(value) for name, value in found.items()})
        built[-1]["tree_mask_mode"] = found["tree_mask_mode"].name
        return SimpleNamespace(**{_SLOTS: None} if has_slots else {})

    return build


def _poison(worker: Any) -> None:
    """Leave in the buffers of the draft's own graphs, and in the plans of all graphs, what no draft may read."""
    buffers, attention = worker.cuda_graph_runner.buffers, worker.draft_attn_backend
    poisoned = [
        getattr(buffers, name)
        for name in (
            *("seq_lens", "req_pool_indices", "out_cache_loc", "positions"),
            *("topk_index", "hidden_states"),
        )
    ]
    if isinstance(attention, TritonMultiStepDraftBackend):
        poisoned += [attention.cuda_graph_kv_indices, attention.kv_indptr[:, 1:]]
    else:
        for each in attention.attn_backends:
            plan = each.decode_cuda_graph_metadata
            poisoned += [plan[name] for name in ("cache_seqlens", "page_table_draft_decode")]
    for each in poisoned:
        if each is not None:
            each.fill_(POISON)


def _looked_up(pool: Any, batch: Any, width: int) -> torch.Tensor:
    """Return the slots of a verify as a tree looks them up that has noted none."""
    columns = batch.seq_lens[:, None] + torch.arange(width)
    found: torch.Tensor = pool.req_to_token[batch.req_pool_indices[:, None], columns]
    return found.flatten().long()


@repeatable
def drafted(case: dict[str, Any], steps: list[dict[str, Any]], disable: str = "") -> dict[str, Any]:
    """Draft each batch; return what each verify is built of and writes to, and what the drafts have written.

    The graphs of the tree draft the steps with ``own``, between those that whole graphs may draft.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    worker, width = _worker(case), case["draft_tokens"]
    built: list[dict[str, Any]] = []
    noted: list[bool] = []
    theirs = eagle_worker_v2.build_eagle_verify_input
    vars(eagle_worker_v2)["build_eagle_verify_input"] = _noting(worker.target_worker, built)
    try:
        for number, step in enumerate(steps):
            _poison(worker)
            # Behind another stream's plan no draft is a whole graph.
            worker.plan_stream = object() if step.get("own") else None
            batch = _batch(case, step, number)
            slots = getattr(worker.draft(batch), _SLOTS, None)
            if slots is None:
                slots = verify_slots(batch, width)
            noted.append(slots is not None)
            if slots is None:
                slots = _looked_up(worker.req_to_token_pool, batch, width)
            built[-1] |= {
                "slots": backends.plain(slots),
                "lens": batch.seq_lens.tolist(),
                "rows": batch.req_pool_indices.tolist(),
            }
    finally:
        # This process answers further requests.
        vars(eagle_worker_v2)["build_eagle_verify_input"] = theirs
    graphs = getattr(worker.cuda_graph_runner, "patchkit_drafts", None)
    return {
        "built": built,
        # The first slot is that of padding.
        "cache": worker.draft_runner.cache[1:].tolist(),
        # Whether a step's verify need not look its slots up.
        "noted": noted,
        "whole": 0 if graphs is None else graphs.steps[True],
    }
