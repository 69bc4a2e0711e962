"""A spec-v2 worker's draft, the rows that it selects from a draft-extend, and the future map between two steps."""

from __future__ import annotations

import os
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.managers import overlap_utils
from sglang.srt.mem_cache import memory_pool
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative import base_spec_worker, eagle_utils, eagle_worker_v2
from sglang.srt.speculative.eagle_info import EagleDraftInput
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker
from torch.utils._python_dispatch import TorchDispatchMode

from .decisions import bare
from .default_server import _answering

HIDDEN = 3


class _Operators(TorchDispatchMode):
    """Notes the name of every operator that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


class _DraftModel:
    """Its logits follow from its input tokens and hidden states."""

    canary_manager = None
    model_config = SimpleNamespace(hf_config=SimpleNamespace(architectures=["Llama"]), model_is_mrope=False)

    def __init__(self, vocabulary: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.by_token = torch.randn((vocabulary, vocabulary), generator=generator)
        self.by_state = torch.randn((HIDDEN, vocabulary), generator=generator)
        self.given: list[list[Any]] = []
        self.server_args = SimpleNamespace()

    def forward(self, forward_batch: Any, **_: Any) -> Any:
        tokens, states = forward_batch.input_ids, forward_batch.spec_info.hidden_states
        places = (forward_batch.positions, forward_batch.out_cache_loc)
        self.given.append([value.tolist() for value in (tokens, states, *places)])
        logits = self.by_token[tokens] + states @ self.by_state
        output = SimpleNamespace(next_token_logits=logits, hidden_states=logits[:, :HIDDEN] / 2)
        return SimpleNamespace(logits_output=output)


def _worker(case: dict[str, Any], disable: str) -> Any:
    os.environ["PATCHKIT_DISABLE"] = disable
    # Compiled, it would compute the same, after a minute.
    torch.compiler.set_stance("force_eager")
    # Later trees have no first version of the worker.
    first = import_module("sglang.srt.speculative.eagle_worker") if case.get("first") else None
    worker = bare(first.EAGLEWorker if first else EagleDraftWorker)
    generator = torch.Generator().manual_seed(case["seed"])
    vocabulary = case["vocabulary"]
    model = _DraftModel(vocabulary, case["seed"])
    vars(worker).update(
        # The first version is itself the draft's.
        draft_runner=model,
        _model_runner=model,
        topk=case["topk"],
        speculative_num_steps=case["steps"],
        speculative_num_draft_tokens=case["draft_tokens"],
        device="cpu",
        hot_token_id=torch.randperm(vocabulary, generator=generator) if case.get("hot") else None,
        draft_attn_backend=SimpleNamespace(attn_backends=[None] * case["steps"]),
        server_args=SimpleNamespace(
            cuda_graph_max_bs=2,
            cuda_graph_config=None,
            max_running_requests=4,
            speculative_use_rejection_sampling=False,
            speculative_algorithm="EAGLE",
        ),
        index_share_for_mtp_iteration=False,
        seed_dsa_topk_from_draft_extend=False,
        plan_stream=None,
        plan_stream_ctx=nullcontext(),
    )
    _answering(eagle_worker_v2, get_spec=SimpleNamespace(speculative_use_rejection_sampling=False))
    _answering(
        base_spec_worker,
        get_exec=SimpleNamespace(graph=SimpleNamespace(cuda_graph_config=None)),
        get_schedule=SimpleNamespace(max_running_requests=4),
    )
    if hasattr(worker, "_rebuild_topk1_chain_buffers"):
        worker._rebuild_topk1_chain_buffers()
    return worker


def draft(case: dict[str, Any], disable: str = "") -> dict[str, Any]:
    """Draft ``case["rows"]`` requests, ``case["times"]`` batches one after another; return each one's tree.

    With ``first`` the worker is of the first version.
    """
    worker = _worker(case, disable)
    rows, topk, steps = case["rows"], case["topk"], case["steps"]
    generator = torch.Generator().manual_seed(case["seed"] + 1)
    trees, operators = [], _Operators()
    for _ in range(case.get("times", 1)):
        logits = torch.randn((rows, case["vocabulary"]), generator=generator)
        scores, tokens = torch.softmax(logits, -1).topk(topk, -1)
        states = torch.randn((rows, HIDDEN), generator=generator)
        batch = SimpleNamespace(
            spec_info=EagleDraftInput(topk_p=scores, topk_index=tokens, hidden_states=states),
            forward_mode=ForwardMode.DECODE,
            moe_num_token_non_padded=None,
            batch_size=rows,
            out_cache_loc=torch.arange(rows * topk * steps),
            positions=torch.arange(rows).repeat_interleave(topk),
        )
        operators.seen.clear()
        with operators:
            # Later releases add the drafts' probabilities, which are not kept by default.
            tree = worker.draft_forward(batch)[:3]
        trees.append([[value.dtype.is_floating_point or str(value.dtype), value.tolist()] for value in tree])
    return {"trees": trees, "given": worker.draft_runner.given, "operators": operators.seen}


def written(rows: int, topk: int, steps: int) -> list[int]:
    """Return, by slot, one more than the number of the draft's row and step whose multi-latent key is there, or 0."""
    # Slot 0 is for padding, and later trees write nothing there; keys of 2 and 1 columns.
    cache = torch.zeros((1 + rows * topk * steps, 1, 3))
    for step, places in enumerate(_places(rows, topk, steps)):
        # A row's steps are adjacent in its own slots.
        keys = (torch.arange(rows * topk) * steps + step + 1.0)[:, None, None]
        memory_pool.set_mla_kv_buffer_triton(cache, places, keys.repeat(1, 1, 2), keys)
    return [int(key) for key in cache[1:, 0, 2]]


def strides(rows: int, topk: int, steps: int) -> list[int]:
    """Return how far apart in memory the slots are that each forward of a draft gets."""
    return [places.stride(0) for places in _places(rows, topk, steps)]


def _places(rows: int, topk: int, steps: int) -> list[torch.Tensor]:
    """Return the slots that each forward of a draft gets."""
    slots = torch.arange(rows * topk * steps) + 1
    if hasattr(eagle_utils, "per_step_draft_out_cache_loc"):
        return list(eagle_utils.per_step_draft_out_cache_loc(slots, rows, topk, steps)[: steps - 1])
    case = {
        "rows": rows,
        "topk": topk,
        "steps": steps,
        "draft_tokens": steps + 1,
        "vocabulary": 11,
        "seed": 0,
    }
    worker = _worker(case, "")
    places = []
    forward = worker.draft_runner.forward

    def noting(forward_batch: Any, **keywords: Any) -> Any:
        places.append(forward_batch.out_cache_loc)
        return forward(forward_batch, **keywords)

    worker.draft_runner.forward = noting
    states = torch.zeros((rows, HIDDEN))
    scores, tokens = torch.softmax(torch.arange(rows * 11.0).reshape(rows, 11), -1).topk(topk, -1)
    worker.draft_forward(
        SimpleNamespace(
            spec_info=EagleDraftInput(topk_p=scores, topk_index=tokens, hidden_states=states),
            batch_size=rows,
            out_cache_loc=slots,
            positions=torch.arange(rows).repeat_interleave(topk),
        )
    )
    return places


def draft_extend(case: dict[str, Any], accepted: list[int], disable: str = "") -> dict[str, Any]:
    """Take each request's row of its last accepted token from a draft-extend's graph."""
    worker = _worker(case, disable)
    rows = len(accepted) * case["draft_tokens"]
    generator = torch.Generator().manual_seed(case["seed"] + 2)
    output = SimpleNamespace(
        next_token_logits=torch.randn((rows, case["vocabulary"]), generator=generator),
        hidden_states=torch.randn((rows, HIDDEN), generator=generator) if case["states"] else None,
    )
    counts = ("num_correct_drafts", "num_accept_tokens")
    # Their names in the oldest trees.
    former = ("num_accepted_drafts", "num_accepted_tokens")
    batch = SimpleNamespace(
        spec_info=SimpleNamespace(**dict.fromkeys((*counts, *former))),
        forward_mode=ForwardMode.DRAFT_EXTEND_V2,
        global_num_tokens_gpu=None,
    )
    eagle_worker_v2.EagleDraftInput = lambda **_: SimpleNamespace(
        prepare_for_extend_to_fill_draft_kvcache=lambda *_: batch
    )
    worker.cuda_graph_runner_for_draft_extend = SimpleNamespace(
        can_run=lambda _: True, replay=lambda _: output
    )
    result = SimpleNamespace(
        logits_output=SimpleNamespace(hidden_states=None),
        accept_lens=torch.tensor(accepted, dtype=torch.int32),
        next_token_ids=None,
        next_draft_input=SimpleNamespace(),
    )
    operators = _Operators()
    with operators:
        worker._draft_extend_for_decode(SimpleNamespace(seq_lens=torch.tensor(accepted)), result)
    following = vars(result.next_draft_input)
    found = {name: None if value is None else value.tolist() for name, value in following.items()}
    return {"next": found, "operators": operators.seen}


def future_map(acts: list[list[Any]], disable: str = "") -> list[dict[str, Any]]:
    """Do the acts with one batch (``step``, ``filter`` to rows, ``merge`` with more); return each step's input."""
    os.environ["PATCHKIT_DISABLE"] = disable
    torch.Tensor.record_stream = lambda *_: None  # type: ignore[method-assign]
    overlap_utils.spec_need_hidden_states = lambda: True
    map_ = overlap_utils.FutureMap(4, None, 64, "cpu", SimpleNamespace(is_none=lambda: False))
    stored = 0

    def store(rows: int) -> Any:
        nonlocal stored
        numbers = torch.arange(stored, stored + rows)
        stored += rows
        indices = map_.alloc_future_indices(rows)
        left = SimpleNamespace(
            topk_p=numbers[:, None] / 8,
            topk_index=numbers[:, None] + 100,
            bonus_tokens=numbers.int() + 200,
            # Its name in the oldest trees.
            verified_id=numbers.int() + 200,
            new_seq_lens=numbers + 300,
            hidden_states=numbers[:, None] + torch.arange(HIDDEN) / 4,
        )
        map_.store_to_map_for_new_batch(indices, left)
        return indices

    current, found = store(3), []
    for name, argument in acts:
        if name == "filter":
            current.indices = current.indices[torch.tensor(argument)]
        elif name == "merge":
            other = store(argument)
            current = overlap_utils.FutureIndices(indices=torch.cat([current.indices, other.indices]))
        else:
            batch = SimpleNamespace(spec_info=SimpleNamespace(future_indices=current))
            operators = _Operators()
            with operators:
                map_.resolve_future(batch)
            resolved = vars(batch.spec_info)
            del resolved["future_indices"]
            values = {key: [str(value.dtype), value.tolist()] for key, value in resolved.items()}
            found.append({"values": values, "gathers": operators.seen.count("index")})
            current = store(len(current.indices))
    return found
