"""A target verify from its logits to the values for the host, the next draft and the draft-extend."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import distributed
from sglang.srt.managers import schedule_batch
from sglang.srt.model_executor import forward_batch_info
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardMode
from sglang.srt.speculative import eagle_utils, eagle_worker_v2
from sglang.srt.speculative.eagle_info import EagleDraftInput, EagleVerifyInput
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker, EAGLEWorkerV2
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import repeatable
from .decisions import bare
from .default_server import _answering, _off
from .drafts import HIDDEN, _Operators


def _module(name: str, otherwise: Any) -> Any:
    """Return a module of the tree's speculative package, or another one in a tree without it."""
    name = f"sglang.srt.speculative.{name}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else otherwise


_FIRST = _module("eagle_info_v2", eagle_utils)
_SAMPLES = _FIRST if hasattr(_FIRST, "verify_tree_greedy_func") else eagle_utils
WIDTH = 40
# The functions that the workers of later trees share.
_COMMON = _module("eagle_worker_common", eagle_worker_v2)
_MOVE_PATHS = getattr(_COMMON, "_finalize_accept_tree_path", None)


def _preparing() -> Any:
    """Return the tree's own function that prepares a draft-extend; a method of its worker asks nothing of that."""
    if hasattr(_COMMON, "prepare_for_draft_extend"):
        return _COMMON.prepare_for_draft_extend
    if hasattr(EagleDraftWorker, "prepare_for_draft_extend"):
        return partial(EagleDraftWorker.prepare_for_draft_extend, None)
    return lambda *given: EagleDraftInput().prepare_for_extend_to_fill_draft_kvcache(*given)


_PREPARES = _preparing()


def _verify_tree(**given: Any) -> tuple[Any, Any, Any]:
    """Do what the library's kernel for a GPU does, by its links."""
    names = ("predicts", "accept_index", "accept_token_num")
    tokens, index, numbers = (given[name] for name in names)
    links = {name.replace("retrive", "retrieve"): value for name, value in given.items()}
    targets, wide = given["target_predict"], given["candidates"].shape[1]
    for row in range(given["candidates"].shape[0]):
        at, found = 0, [row * wide]
        for _ in range(index.shape[1] - 1):
            at = int(links["retrieve_next_token"][row, at])
            while at != -1 and given["candidates"][row, at] != targets.flatten()[found[-1]]:
                at = int(links["retrieve_next_sibling"][row, at])
            if at == -1:
                break
            tokens[found[-1]] = targets.flatten()[found[-1]].int()
            found.append(row * wide + at)
        tokens[found[-1]] = targets.flatten()[found[-1]].int()
        index[row, : len(found)] = torch.tensor(found, dtype=torch.int32)
        numbers[row] = len(found) - 1
    return tokens, index, numbers


def _links(draw: random.Random, rows: int, tokens: int) -> dict[str, torch.Tensor]:
    """Return the links of random trees, in which every token follows one before it."""
    after, beside = torch.full((2, rows, tokens), -1).unbind()
    for row in range(rows):
        last: dict[int, int] = {}
        for token in range(1, tokens):
            parent = draw.randrange(token)
            (beside if parent in last else after)[row, last.get(parent, parent)] = token
            last[parent] = token
    places = torch.arange(rows * tokens).view(rows, tokens)
    return {
        "retrieve_index": places,
        "retrieve_next_token": after.contiguous(),
        "retrieve_next_sibling": beside.contiguous(),
    }


def _tree(case: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return the links of every request's tree: a chain, or with several branches a random one, or leaves of a root."""
    rows, tokens = len(case["drafts"]), len(case["drafts"][0])
    if "seed" in case:
        return _links(random.Random(case["seed"]), rows, tokens)
    after, beside = [-1] * tokens, [-1] * tokens
    if case["topk"] == 1:
        after = [*range(1, tokens), -1]
    else:
        after[0], beside = 1, [-1, *range(2, tokens), -1]
    return {
        "retrieve_index": torch.arange(rows * tokens).view(rows, tokens),
        "retrieve_next_token": torch.tensor([after] * rows),
        "retrieve_next_sibling": torch.tensor([beside] * rows),
    }


def _verify_input(case: dict[str, Any], drafts: torch.Tensor) -> Any:
    made: Any = bare(EagleVerifyInput)
    tokens = drafts.shape[1]
    vars(made).update(
        draft_token=drafts.flatten(),
        draft_token_num=tokens,
        spec_steps=case.get("depth", tokens) - 1,
        topk=case["topk"],
        grammar=None,
        **_tree(case),
    )
    forward_batch = SimpleNamespace()
    made.prepare_for_v2_verify = lambda *_: (forward_batch, True)
    return made


@repeatable
def step(case: dict[str, Any], disable: str = "", *, extends: bool = False) -> dict[str, Any]:
    """Verify ``case["drafts"]`` (tokens of each request) against ``case["targets"]``; return all that follows.

    What is returned says the type of every tensor. With ``sampled`` the batch is not greedy as a whole; what follows is
    also the draft-extend's batch if it ``extends``.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    torch.Tensor.record_stream = lambda *_: None  # type: ignore[method-assign]
    event = SimpleNamespace(record=lambda: None)
    device = SimpleNamespace(Event=lambda: event, current_stream=lambda *_: None)
    setattr(torch, "get_device_module", lambda *_: device)  # noqa: B010
    _SAMPLES.verify_tree_greedy_func = _verify_tree
    _SAMPLES.SIMULATE_ACC_LEN = 0
    # 34238 asks them, in later trees by an import in the function.
    for module in (_SAMPLES, distributed):
        _answering(module, get_tp_group=SimpleNamespace(world_size=1))
    for module in (_SAMPLES, eagle_worker_v2):
        if hasattr(module, "get_spec"):
            module.get_spec = lambda: SimpleNamespace(speculative_use_rejection_sampling=False)
    # Without a GPU every batch is verified so: what counts is what the batch says.
    _SAMPLES._is_npu = _SAMPLES._is_cpu = True
    drafts, targets = torch.tensor(case["drafts"]), torch.tensor(case["targets"])
    rows, tokens = drafts.shape
    logits = torch.nn.functional.one_hot(targets.flatten(), case["vocabulary"]).float()
    states = torch.arange(rows * tokens * HIDDEN).view(rows * tokens, HIDDEN) / 8
    verify_input = _verify_input(case, drafts)
    output: Any = SimpleNamespace(next_token_logits=logits, hidden_states=states)
    output.sampling_mask_output = output.auxiliary_device_output = None
    forwarded = SimpleNamespace(logits_output=output, routed_experts_output=None, indexer_topk_output=None)
    kinds = ("gdn", "lightning", "kda")
    configs = [
        *[f"hybrid_{kind}_config" for kind in kinds],
        *["mamba2_config", "mambaish_config", "kimi_linear_config"],
    ]
    runner = SimpleNamespace(**dict.fromkeys(configs))
    moves: list[torch.Tensor] = []
    cache = SimpleNamespace(move_kv_cache=lambda *given: moves.extend(given))
    allocator = SimpleNamespace(get_kvcache=lambda: cache)
    table = torch.arange(rows * WIDTH, dtype=torch.int32).view(rows, WIDTH)
    worker = bare(EAGLEWorkerV2)
    vars(worker).update(
        device="cpu",
        topk=case["topk"],
        speculative_num_steps=verify_input.spec_steps,
        speculative_num_draft_tokens=tokens,
        plan_stream=None,
        plan_stream_ctx=nullcontext(),
        req_to_token_pool=SimpleNamespace(req_to_token=table),
        token_to_kv_pool_allocator=allocator,
        _target_worker=SimpleNamespace(
            model_runner=runner, forward_batch_generation=lambda *_, **__: forwarded
        ),
    )
    if hasattr(_COMMON, "eagle_prepare_for_verify"):
        _COMMON.eagle_prepare_for_verify = lambda *_: (SimpleNamespace(), True)
        # A model without such states.
        _COMMON.commit_mamba_states_after_verify = lambda *_: None
    stays = "seed" not in case
    if stays:
        worker._finalize_accept_tree_path = lambda *given: given[3]
    if _MOVE_PATHS is not None:
        _COMMON._finalize_accept_tree_path = (lambda *given, **_: given[3]) if stays else _MOVE_PATHS
    sampling = SimpleNamespace(
        is_all_greedy=not case.get("sampled", False),
        acc_additive_penalties=None,
        acc_scaling_penalties=None,
        logit_bias=None,
    )
    batch = SimpleNamespace(
        seq_lens=torch.tensor(case["lens"]),
        req_pool_indices=torch.arange(rows).flip(0),
        req_to_token_pool=SimpleNamespace(req_to_token=table),
        input_ids=drafts.flatten(),
        out_cache_loc=torch.arange(rows * tokens) + WIDTH * rows,
        device="cpu",
        spec_info=verify_input,
        forward_mode=ForwardMode.TARGET_VERIFY,
        sampling_info=sampling,
        has_grammar=False,
        return_logprob=False,
    )
    operators = _Operators()
    with operators:
        result: Any = worker.verify(batch)
        selected = _selected(result, tokens, case["lens"] if extends else [])
        if moves:
            selected |= {"to": moves[0], "from": moves[1], "states": result.logits_output.hidden_states}
        result.copy_done = event
        result.logits_output.hidden_states = None
        result.copy_to_cpu(return_logprob=False)
    draft_input = result.next_draft_input
    after = getattr(result, "new_seq_lens", None)
    found = {
        "tokens": result.next_token_ids,
        "accepted": result.accept_lens,
        "lens": draft_input.new_seq_lens if after is None else after,
        "bonus": getattr(draft_input, "bonus_tokens", getattr(draft_input, "verified_id", None)),
        **selected,
    }
    return {
        "found": {name: [str(value.dtype), value.tolist()] for name, value in found.items()},
        "operators": operators.seen,
    }


def _rows_of(output: SimpleNamespace, rows: Any = None) -> SimpleNamespace:
    """Return what a graph gives that computes these rows alone, or all of them."""
    return (
        output if rows is None else SimpleNamespace(**{name: of[rows] for name, of in vars(output).items()})
    )


def _batch_of_extend(lens: list[int], *given: Any, **named: Any) -> dict[str, Any]:
    """Return the batch that the tree's own function prepares for a draft-extend of requests that had ``lens``.

    ``given``: its input, in trees where that has no such function, a batch, its tokens, and what runs it.
    """
    _answering(
        forward_batch_info, enable_num_token_non_padded=False, _maybe_build_forward_token_modalities=None
    )
    _answering(forward_batch_info, get_server_return_hidden_states_mode=CaptureHiddenMode.NULL)
    count, width = len(lens), given[-3]
    of_input = len(given) == 5
    batch = _off(
        getattr(schedule_batch, "ModelWorkerBatch", schedule_batch.ScheduleBatch),
        forward_mode=ForwardMode.DECODE,
        seq_lens=torch.tensor(lens),
        # Trees in which an input prepares need the host's lengths.
        seq_lens_cpu=torch.tensor(lens) if of_input else None,
        seq_lens_sum=sum(lens) if of_input else None,
        req_pool_indices=torch.arange(count),
        out_cache_loc=torch.arange(count * width),
        model_config=SimpleNamespace(vocab_size=1000),
        spec_algorithm=SpeculativeAlgorithm.EAGLE,
        reqs=[],
    )
    runner = _off(
        type("Runner", (), {}),
        device="cpu",
        server_args=SimpleNamespace(attention_backend="triton", enable_lora=False),
        prefill_attention_backend_str="triton",
        spec_algorithm=SpeculativeAlgorithm.EAGLE,
        is_draft_worker=True,
        ps=SimpleNamespace(attn_dcp_size=1),
        attn_dcp_size=1,
        dcp_size=1,
        model_is_mrope=False,
        model_config=SimpleNamespace(model_is_mrope=False),
        ngram_embedding_manager=SimpleNamespace(enabled=False),
        kv_index_translator=SimpleNamespace(rebind_write_loc=lambda _: None),
    )
    graphs = SimpleNamespace(can_run=lambda _: True, can_run_graph=lambda _: True)
    made = _PREPARES(*given[:-5], batch, given[-4], width, runner, graphs, **named)
    names = ("seq_lens", "positions", "extend_start_loc", "extend_seq_lens", "extend_prefix_lens")
    return {f"extend's {name}": getattr(made, name) for name in names}


def _selected(result: Any, tokens: int, lens: list[int]) -> dict[str, Any]:
    """Return what a draft-extend takes of the verify: its tokens, numbers, and rows of the last accepted ones.

    With ``lens`` of requests also their batch.
    """
    draft: Any = bare(EagleDraftWorker)
    taken: dict[str, Any] = {}

    def prepare(*given: Any, **named: Any) -> Any:
        taken["extended"] = given[-4]
        if lens:
            taken.update(_batch_of_extend(lens, *given, **named))
        info = given[0] if len(given) == 6 else None
        names = ("num_correct_drafts", "num_accepted_drafts")
        forward_batch.spec_info = info or SimpleNamespace(**dict.fromkeys(names))
        return forward_batch

    forward_batch = SimpleNamespace(
        spec_info=None, forward_mode=ForwardMode.DRAFT_EXTEND_V2, global_num_tokens_gpu=None
    )
    rows = result.next_token_ids.shape[0]
    output = SimpleNamespace(
        next_token_logits=torch.arange(rows * 2.0).view(rows, 2), hidden_states=torch.arange(rows)
    )
    real = eagle_worker_v2.EagleDraftInput
    if hasattr(eagle_worker_v2, "prepare_for_draft_extend"):
        eagle_worker_v2.prepare_for_draft_extend = prepare
    elif not hasattr(EagleDraftWorker, "prepare_for_draft_extend"):
        eagle_worker_v2.EagleDraftInput = lambda **_: SimpleNamespace(
            prepare_for_extend_to_fill_draft_kvcache=prepare
        )
    graph: Any = SimpleNamespace(
        can_run=lambda _: True,
        can_run_graph=lambda _: True,
        replay=lambda _: output,
        execute=lambda _, *rows: _rows_of(output, *rows),
    )
    vars(draft).update(
        device="cpu",
        topk=1,
        speculative_num_steps=tokens - 1,
        speculative_num_draft_tokens=tokens,
        plan_stream=None,
        plan_stream_ctx=nullcontext(),
        draft_runner=SimpleNamespace(canary_manager=None, server_args=SimpleNamespace()),
        seed_dsa_topk_from_draft_extend=False,
        cuda_graph_runner_for_draft_extend=graph,
        prepare_for_draft_extend=prepare,
        server_args=SimpleNamespace(speculative_use_rejection_sampling=False),
    )
    draft._draft_extend_for_decode(SimpleNamespace(seq_lens=torch.zeros(len(result.accept_lens))), result)
    eagle_worker_v2.EagleDraftInput = real
    info = forward_batch.spec_info
    drafts = getattr(info, "num_correct_drafts", None)
    taken["drafts"] = info.num_accepted_drafts if drafts is None else drafts
    taken["rows"] = result.next_draft_input.hidden_states
    return taken
