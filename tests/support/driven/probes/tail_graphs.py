"""Draft-extends of a worker behind verifies that were replays of the target's graphs."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend

from . import accepted_rows, flash_attention, forward_batches, repeatable
from . import attention_backends as backends

CONTEXT = 64
HIDDEN = accepted_rows.HIDDEN


class _Graph(accepted_rows.Graph):
    replays = 0

    def replay(self) -> None:
        """Compute into the same memory again."""
        _Graph.replays += 1
        for into, found in zip(self.left, self.run(), strict=True):
            into.copy_(found.clone())


def _planned(backend: Any, size: int) -> list[torch.Tensor]:
    """Return the slots to which each request of a graph attends."""
    if isinstance(backend, TritonAttnBackend):
        starts, slots = backend.kv_indptr, backend.cuda_graph_kv_indices
        return [slots[starts[row] : starts[row + 1]] for row in range(size)]
    plan = backend.draft_extend_metadata[size]
    return [plan.page_table[row, : plan.cache_seqlens_int32[row]] for row in range(size)]


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
        read = [
            self.cache[slots].sum(0).expand(width, -1) for slots in _planned(self.backend, batch.batch_size)
        ]
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
    return SimpleNamespace(
        buffers=SimpleNamespace(**buffers), num_tokens_per_bs=width, output_buffers=outputs, bs=0, raw_bs=0
    )


def _worker(case: dict[str, Any]) -> Any:
    width, sizes = case["draft_tokens"], case["captured"]
    server = {"context": CONTEXT, "page_size": 1, "draft_tokens": width, "steps": width - 1}
    if case["backend"] == "triton":
        backend: Any = TritonAttnBackend(backends.model_runner(**server))
    else:
        backend = flash_attention._backend(server)
        backend.req_to_token = backend.req_to_token.contiguous()
    with backends.OnCpu():
        backend.init_cuda_graph_state(max(sizes), max(sizes) * width)
    forward_batches._serve()
    target = _target(case)
    target_worker = SimpleNamespace(model_runner=SimpleNamespace(graph_runner=target))
    worker = accepted_rows.worker_of(
        case | {"graph": True},
        _Model(case, backend),
        eagle_worker=SimpleNamespace(target_worker=target_worker),
        draft_extend_attn_backend=backend,
        enable_torch_compile=False,
        require_mlp_sync=False,
        _create_graph=_Graph,
        _capture_init=lambda run: run(),
    )
    worker.target_worker = target_worker
    makes, draft = forward_batches.runner(), worker.draft_runner
    vars(makes.server_args).update(vars(draft.server_args))
    vars(draft).update(vars(makes))
    return worker


def _verified(worker: Any, case: dict[str, Any], step: dict[str, Any], number: int) -> tuple[Any, Any]:
    """Leave what the verify of a step leaves; return its batch and its result."""
    rows, lens, width = step["rows"], step["lens"], case["draft_tokens"]
    count, target = len(rows), worker.target_worker.model_runner.graph_runner
    own, tokens = target.buffers, count * width
    size = next(each for each in sorted(case["captured"]) if each >= count)
    table = worker.draft_runner.model.backend.req_to_token
    batch = forward_batches.make_batch({"lens": lens, "mode": "TARGET_VERIFY", "mirror": True, "sum": True})
    batch.req_pool_indices, batch.seq_lens = torch.tensor(rows), torch.tensor(lens)
    batch.out_cache_loc = torch.cat(
        [table[row, length : length + width] for row, length in zip(rows, lens, strict=True)]
    ).long()
    own.seq_lens.fill_(1)
    own.out_cache_loc.zero_()
    own.seq_lens[:count], own.req_pool_indices[:count] = batch.seq_lens, batch.req_pool_indices
    own.out_cache_loc[:tokens] = batch.out_cache_loc
    own.positions[:tokens] = (batch.seq_lens[:, None] + torch.arange(width)).flatten()
    generator = torch.Generator().manual_seed(number)
    output = target.output_buffers[size].hidden_states
    output.copy_(torch.randn(output.shape, generator=generator))
    target.bs, target.raw_bs = size, count
    return batch, SimpleNamespace(
        can_run_cuda_graph=step.get("replayed", True),
        logits_output=SimpleNamespace(hidden_states=output[:tokens]),
        next_token_ids=torch.randint(100, (tokens,), generator=generator, dtype=torch.int32),
        accept_lens=torch.tensor(step["accepted"], dtype=torch.int32),
        next_draft_input=SimpleNamespace(),
    )


@repeatable
def extended(case: dict[str, Any], steps: list[dict[str, Any]], disable: str = "") -> dict[str, Any]:
    """Extend the draft after each step; return what each passes on, read after the last, and the cache."""
    os.environ["PATCHKIT_DISABLE"] = disable
    worker, passed = _worker(case), []
    _Graph.replays = 0
    for number, step in enumerate(steps):
        batch, result = _verified(worker, case, step, number)
        worker._draft_extend_for_decode(batch, result)
        passed.append(result.next_draft_input)
    # The first slot is that of padding.
    return {
        "passed": [
            {name: getattr(each, name).tolist() for name in ("topk_index", "topk_p", "hidden_states")}
            for each in passed
        ],
        "cache": worker.draft_runner.model.cache[1:].tolist(),
        "tails": _Graph.replays,
    }
