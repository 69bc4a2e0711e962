"""Draft-extends of a worker behind verifies that were replays of the target's graphs."""

from __future__ import annotations

import functools
import importlib.util
import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.flashattention_backend import FlashAttentionBackend
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
from sglang.srt.speculative import eagle_worker_v2
from sglang.srt.speculative.eagle_draft_extend_cuda_graph_runner import EAGLEDraftExtendCudaGraphRunner

from . import accepted_rows, flash_attention, repeatable
from . import attention_backends as backends
from .decisions import bare

# Later trees make a draft-extend's batch from what a whole scheduler has.
_SCHEDULED = importlib.util.find_spec("sglang.srt.speculative.eagle_info_v2") is not None
if _SCHEDULED:
    from . import forward_batches

CONTEXT = 64
HIDDEN = accepted_rows.HIDDEN


class _Graph(accepted_rows.Graph):
    def replay(self) -> None:
        """Compute into the same memory again."""
        for into, found in zip(self.left, self.run(), strict=True):
            into.copy_(found.clone())


class _CudaGraphRunner(SimpleNamespace):
    """The target's runner, which only leaves what a verify does."""


_CudaGraphRunner.__name__ = "CudaGraphRunner"


class _Model(accepted_rows._Model):
    """Writes each token to its slot; its states follow from all that its request then has."""

    def __init__(self, case: dict[str, Any], backend: Any) -> None:
        super().__init__(case)
        self.backend = backend
        self.cache = torch.zeros(int(backend.req_to_token.max()) + 1, HIDDEN)

    def forward(self, tokens: Any, positions: Any, batch: Any) -> Any:
        states = self.embedding[tokens] + batch.spec_info.hidden_states + positions[:, None] / 7
        self.cache[batch.out_cache_loc] = states
        width = len(tokens) // batch.batch_size
        attended = backends.attended(self.backend, batch.batch_size, "draft_extend_metadata")
        read = [self.cache[slots].sum(0).expand(width, -1) for slots in attended]
        states = states + torch.cat(read) / 50
        return self.processor.forward(tokens, states, None, batch, None)


def _target(case: dict[str, Any]) -> Any:
    """Return the target's graphs: buffers, and the output of each size."""
    width, largest = case["draft_tokens"], max(case["captured"])
    buffers = {
        name: torch.zeros(largest * width, dtype=torch.int64) for name in ("out_cache_loc", "positions")
    } | {
        "req_pool_indices": torch.zeros(largest, dtype=torch.int64),
        "seq_lens": torch.ones(largest, dtype=torch.int32),
    }
    states = torch.zeros(largest * width, HIDDEN)
    outputs = {size: SimpleNamespace(hidden_states=states[: size * width]) for size in case["captured"]}
    made = _CudaGraphRunner(buffers=SimpleNamespace(**buffers), num_tokens_per_bs=width, bs=0, raw_bs=0)
    if hasattr(EAGLEDraftExtendCudaGraphRunner, "capture_one_shape"):
        made.backend = accepted_rows.FullCudaGraphBackend(made)
        made.backend.left.update(outputs)
        made._make_graph_key = lambda size: size
    else:
        made.output_buffers = outputs
    return made


def _is_latent(case: dict[str, Any]) -> bool:
    return bool(case["backend"] == "fa3 on MLA")


def _bare_backend(case: dict[str, Any]) -> Any:
    """Return a backend of a later tree, whose constructor takes its options from a whole server."""
    size, width = max(case["captured"]), case["draft_tokens"]
    table = backends.slots(24, CONTEXT + backends.ROOM, 1, 0)
    kind = TritonAttnBackend if case["backend"] == "triton" else FlashAttentionBackend
    made: Any = bare(kind)
    vars(made).update(
        dict.fromkeys(
            (
                *("dllm_attention", "sliding_window_size", "swa_v_head_dim", "_translate_kv_loc"),
                *("attention_chunk_size", "local_attn_builder", "encoder_metadata", "_sched_meta_buf"),
                "_get_scheduler_metadata",
                *("_kv_shard_pool", "_verify_mask", "window_kv_indptr"),
            )
        ),
        **dict.fromkeys(
            (
                *("use_sliding_window_kv_pool", "has_swa", "has_local_attention", "skip_prefill"),
                *("is_encoder_decoder", "is_prefill_aware_swa", "needs_cpu_seq_lens"),
            ),
            False,
        ),
        device="cpu",
        use_mla=_is_latent(case),
        is_draft_runner=True,
        req_to_token=table,
        max_context_len=CONTEXT,
        max_num_pages=CONTEXT,
        page_size=1,
        topk=1,
        fa_impl_ver=3,
        dcp_size=1,
        num_draft_tokens=width,
        speculative_num_draft_tokens=width,
        speculative_num_steps=width - 1,
        speculative_step_id=0,
        num_head=1,
        max_kv_splits=1,
        v_head_dim=1,
        lean_total_programs=1,
        lean_block_m=1,
        kv_indptr=torch.zeros(size + 1, dtype=torch.int32),
        qo_indptr=torch.zeros(size + 1, dtype=torch.int64),
        mask_indptr=torch.zeros(size + 1, dtype=torch.int64),
        kv_index_translator=_translator(table),
        draft_extend_metadata={},
    )
    return made


def _translator(table: torch.Tensor) -> Any:
    """Return what finds a draft's slots: they are those of the table."""
    name = "sglang.srt.mem_cache.kv_index_translator"
    if importlib.util.find_spec(name) is None:
        return None
    module = importlib.import_module(name)
    made = bare(module.KVIndexTranslator)
    vars(made).update(
        is_translating=False,
        defer_read_translate=False,
        req_to_token=table,
        page_size=1,
        device="cpu",
        _index_table_memo=None,
    )
    if hasattr(module, "IdSpaceKind"):
        kind = module.IdSpaceKind.FULL
        made._spaces = {kind: module.IdSpace(key=(kind, None))}
    return made


def _worker(case: dict[str, Any]) -> Any:
    width, sizes = case["draft_tokens"], case["captured"]
    server = {"context": CONTEXT, "page_size": 1, "draft_tokens": width, "steps": width - 1}
    server |= {"mla": _is_latent(case)}
    if not _SCHEDULED:
        backend: Any = _bare_backend(case)
    elif case["backend"] == "triton":
        backend = TritonAttnBackend(backends.model_runner(**server))
    else:
        backend = flash_attention._backend(server)
        backend.req_to_token = backend.req_to_token.contiguous()
    with backends.OnCpu():
        backend.init_cuda_graph_state(max(sizes), max(sizes) * width)
    if _SCHEDULED:
        forward_batches._serve()
    target = _target(case)
    name = "decode_cuda_graph_runner" if hasattr(target, "backend") else "graph_runner"
    target_worker = SimpleNamespace(model_runner=SimpleNamespace(**{name: target}))
    captures = bare(eagle_worker_v2.EagleDraftWorker)
    captures.target_worker, captures.topk = target_worker, 1
    worker = accepted_rows.worker_of(
        case | {"graph": True},
        _Model(case, backend),
        eagle_worker=captures,
        draft_extend_attn_backend=backend,
        enable_torch_compile=False,
        require_mlp_sync=False,
        _create_graph=_Graph,
        _capture_init=lambda run: run(),
    )
    worker.target_worker = target_worker
    if _SCHEDULED:
        makes, draft = forward_batches.runner(), worker.draft_runner
        vars(makes.server_args).update(vars(draft.server_args))
        vars(draft).update(vars(makes))
    return worker


def _batch(rows: list[int], lens: list[int], slots: torch.Tensor) -> Any:
    """Return a scheduler's batch after a verify, whose forward batch for the draft-extend is the tree's."""
    at, before = torch.tensor(rows), torch.tensor(lens)
    if _SCHEDULED:
        batch = forward_batches.make_batch(
            {"lens": lens, "mode": "TARGET_VERIFY", "mirror": True, "sum": True}
        )
        batch.req_pool_indices, batch.seq_lens, batch.out_cache_loc = at, before, slots
        return batch
    count, width = len(rows), len(slots) // len(rows)

    def prepare(spec_info: Any, _: Any, tokens: torch.Tensor, *__: Any, **___: Any) -> Any:
        return backends.forward_batch(
            "extend v2",
            batch_size=count,
            input_ids=tokens,
            req_pool_indices=at,
            seq_lens=before + width,
            seq_lens_cpu=torch.tensor(lens) + width,
            seq_lens_sum=sum(lens) + count * width,
            out_cache_loc=slots,
            positions=(before[:, None] + torch.arange(width)).flatten(),
            extend_seq_lens=torch.full((count,), width, dtype=torch.int32),
            extend_seq_lens_cpu=[width] * count,
            spec_info=spec_info,
        )

    # It is a function, or a method of the worker in 0.5.15, and is asked for its code.
    owners = (eagle_worker_v2.EagleDraftWorker, eagle_worker_v2)
    theirs = next(filter(None, (getattr(each, "prepare_for_draft_extend", None) for each in owners)))
    functools.update_wrapper(prepare, theirs)
    eagle_worker_v2.EagleDraftWorker.prepare_for_draft_extend = staticmethod(prepare)
    vars(eagle_worker_v2).update(
        prepare_for_draft_extend=prepare,
        get_spec=lambda: SimpleNamespace(speculative_use_rejection_sampling=False),
    )
    return SimpleNamespace(seq_lens=before)


def _verified(worker: Any, case: dict[str, Any], step: dict[str, Any], number: int) -> tuple[Any, Any]:
    """Leave what the verify of a step leaves; return its batch and its result."""
    rows, lens, width = step["rows"], step["lens"], case["draft_tokens"]
    count, target = len(rows), next(iter(vars(worker.target_worker.model_runner).values()))
    own, tokens = target.buffers, count * width
    size = next(each for each in sorted(case["captured"]) if each >= count)
    table = worker.draft_runner.model.backend.req_to_token
    slots = torch.cat([table[row, length : length + width] for row, length in zip(rows, lens, strict=True)])
    batch = _batch(rows, lens, slots.long())
    own.seq_lens.fill_(1)
    own.out_cache_loc.zero_()
    own.seq_lens[:count], own.req_pool_indices[:count] = torch.tensor(lens), torch.tensor(rows)
    own.out_cache_loc[:tokens] = slots
    own.positions[:tokens] = (torch.tensor(lens)[:, None] + torch.arange(width)).flatten()
    generator = torch.Generator().manual_seed(number)
    output = (target.backend.left if hasattr(target, "backend") else target.output_buffers)[
        size
    ].hidden_states
    output.copy_(torch.randn(output.shape, generator=generator))
    target.bs, target.raw_bs, target._replay_graph_key = size, count, size
    verified = torch.randint(100, (tokens,), generator=generator, dtype=torch.int32)
    accepted = torch.tensor(step["accepted"], dtype=torch.int32)
    return batch, SimpleNamespace(
        can_run_cuda_graph=step.get("replayed", True),
        logits_output=SimpleNamespace(hidden_states=output[:tokens]),
        next_token_ids=verified,
        accept_lens=accepted,
        next_draft_input=SimpleNamespace(),
        # With these, later trees have computed what the draft-extend takes.
        prepared_draft_extend_inputs=(
            (accepted - 1, torch.arange(count) * width + accepted - 1, verified.long())
            if not _SCHEDULED and number % 2
            else None
        ),
    )


@repeatable
def extended(case: dict[str, Any], steps: list[dict[str, Any]], disable: str = "") -> dict[str, Any]:
    """Extend the draft after each step; return what each passes on, read after the last, and the cache."""
    os.environ["PATCHKIT_DISABLE"] = disable
    worker, passed = _worker(case), []
    for number, step in enumerate(steps):
        batch, result = _verified(worker, case, step, number)
        worker._draft_extend_for_decode(batch, result)
        passed.append(result.next_draft_input)
    tails = getattr(worker.cuda_graph_runner_for_draft_extend, "patchkit_tails", None)
    # The first slot is that of padding.
    return {
        "passed": [
            {name: getattr(each, name).tolist() for name in ("topk_index", "topk_p", "hidden_states")}
            for each in passed
        ],
        "cache": worker.draft_runner.model.cache[1:].tolist(),
        "tails": 0 if tails is None else tails.steps[True],
    }
