"""Run a step's draft-extend, from the verify's result to the next draft's first tokens, in one graph per batch size.

The graph reads lengths, rows of the pool, slots, positions and hidden states where the target's graph of the same size
has left them; only the verified tokens and the rows of the last accepted ones are copied in. It writes to no buffer of
another graph, except the logits and the backend's own plan, which every other draft-extend writes as well.
"""

from __future__ import annotations

import copy
import inspect
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..backends.flash_attention import fill_flash_attention
from .accepted_rows import accepted_logits, is_released
from .copies import copy_together
from .draft_chain import unit_scores
from .flash_attention import is_plain
from .known_rows import last_accepted
from .step_graphs import (
    StepGraphs,
    backend_of,
    capture_beside,
    graphs_of,
    having,
    names_of_fork,
    obstacles,
    outputs_of,
    target_of,
    timed,
    width_of,
)
from .switches import disabled
from .triton_attention import is_plain_triton, plans_triton_extend, replay_triton_extend
from .verify_outputs import wide_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

_PATCH = "pk-tail-graph"
_PLANNED = "pk-planned-tail-graph"
_TAILS = "patchkit_tails"
# What later trees plan a graph's replay with.
_OWN_PLAN = "init_forward_metadata_out_graph"
# What a tail fills in a draft-extend's place, and what that does not read.
_BUFFERS = {
    *("input_ids", "req_pool_indices", "out_cache_loc", "positions", "hidden_states", "select_index"),
    *("seq_lens", "seq_lens_cpu", "extend_seq_lens", "mrope_positions", "next_token_logits_buffer"),
    *("num_correct_drafts", "num_accept_tokens", "num_accepted_drafts", "num_accepted_tokens"),
    *("global_num_tokens_gpu", "global_num_tokens_for_logprob_gpu"),
}
# What the draft-extends of sglang's releases name, with the preparation of their batch.
_NAMES = """
CaptureHiddenMode DRAFT_EXTEND_V2 EagleDraftExtendInput EagleDraftInput FULL ForwardBatch ForwardMode IDLE NULL
_get_dsa_extend_topk_buf _is_hip accept_lens all arange argmax attn_backend buffers can_run can_run_graph
canary_manager capture_hidden_mode clamp context_tuple contextlib cuda_graph_compatible
cuda_graph_runner_for_draft_extend current_stream device draft_probs draft_runner draft_topk1_argmax_only
dsa_seed_topk_capture dsa_topk_indices execute extend_lens extend_num_tokens extend_prefix_lens extend_seq_lens
extend_seq_lens_cpu fast_sample fast_topk float32 forward forward_mode full get_device_module get_spec hidden_states
init_forward_metadata init_new input_ids int int32 int64 is_cuda is_idle is_npu is_standalone len logits_output
mark_forward_metadata_ready max maybe_detect_inf maybe_detect_nan maybe_detect_oob model_config model_is_mrope
multimodal_inputs new_empty new_seq_lens new_zeros next_draft_input next_token_ids next_token_logits nullcontext
num_accept_tokens num_accepted_drafts num_accepted_tokens num_correct_drafts num_front_tokens ones_like out_cache_loc
patchkit_api plan_stream plan_stream_ctx positions prefix_lens prepare_draft_extend_inputs prepare_draft_extend_layout
prepare_draft_extend_lengths prepare_for_draft_extend prepare_for_extend_to_fill_draft_kvcache
prepared_draft_extend_inputs range renorm_draft_probs replay sample_draft_proposal sampling_info sampling_seed
seed_dsa_topk_from_draft_extend seq_lens seq_lens_cpu seq_lens_sum server_args sglang.kernels.ops.speculative.eagle
sglang.srt.model_executor.forward_batch_info sglang.srt.utils.async_probe sglang.srt.utils.common shape softmax
spec_algorithm spec_info speculative_num_draft_tokens speculative_num_steps speculative_use_rejection_sampling sum
temperatures to tolist top_ks topk topk_index topk_p torch vocab_size wait_stream with_active_single_forward_manager
with_ops_outside_graph
"""
# By which the scheduler's stream waits for less than the whole forward.
_READ_DONE = ("shared_read_done_event", "war_fastpath_read_done_event")


class _Tail(NamedTuple):
    replay: Callable[[], object]
    # Whose buffers the tail reads, and where hidden states are; not kept where the server captures its graphs again.
    target: weakref.ref[Any]
    read: int | None
    tokens: torch.Tensor
    rows: torch.Tensor
    likeliest: torch.Tensor
    states: torch.Tensor | None


class _Tails(StepGraphs[_Tail]):
    """The tails of a draft-extend's runner, by size, and what they were captured for."""

    def __init__(self, runner: Any) -> None:
        super().__init__("draft-extend", "tail")
        requests, width = max(runner.capture_bs), width_of(runner)
        device, lens = runner.buffers.input_ids.device, runner.buffers.seq_lens
        self.width = width
        # What an earlier batch leaves for a padding request is valid, and so is this.
        self.tokens = torch.zeros(requests * width, dtype=torch.int64, device=device)
        self.rows = torch.arange(requests, dtype=torch.int64, device=device) * width
        self.lens = torch.ones(requests, dtype=lens.dtype, device=device)
        self.extends = torch.full((requests,), width, dtype=torch.int32, device=device)

    def for_step(self, worker: Any, result: Any) -> _Tail | None:
        """Return the tail for what a verify left, None unless it was a replay of the graph that the tail reads."""
        if not result.can_run_cuda_graph or worker.plan_stream is not None:
            return None
        target = target_of(worker)
        tail = self.by_size.get(target.bs)
        key = target.bs if backend_of(target) is None else target._replay_graph_key
        replayed: Any = outputs_of(target).get(key)
        if tail is None or replayed is None:
            return None
        lens, states = result.accept_lens, result.logits_output.hidden_states
        if (
            lens.shape[0] != target.raw_bs
            or result.next_token_ids.shape[0] != lens.shape[0] * self.width
            or worker.speculative_num_draft_tokens != self.width
            or not _address(states) == _address(replayed.hidden_states) == tail.read
            or tail.target() is not target
        ):
            return None
        return tail


def _address(states: torch.Tensor | None) -> int | None:
    return None if states is None else states.data_ptr()


def _obstacle(runner: Any, batch: Any) -> str | None:
    """Return why the draft-extends of ``runner`` cannot run as tails, None if they can."""
    if not is_released(runner):
        # It need not have what is read below.
        return "its runner or worker is a class of its own"
    target = target_of(runner.eagle_worker)
    patch = _PLANNED if hasattr(runner.draft_extend_attn_backend, _OWN_PLAN) else _PATCH
    if names := _names_of_fork(runner.eagle_worker):
        return f"the worker's draft-extend has code of its own ({', '.join(sorted(names))})"
    off = [name for name in (patch, "26397", "35546") if disabled(name)]
    found = {
        f"{', '.join(off)} is disabled": bool(off),
        "the target has no graphs of as many tokens a request": width_of(target) != width_of(runner),
        "its LM head computes all rows": getattr(batch.spec_info, "select_index", None) is None,
        "its backend is neither plain Triton nor plain FlashAttention-3": _plan_of(runner) is None,
        **obstacles(runner, batch, _BUFFERS),
    }
    return next((why for why, holds in found.items() if holds), None)


def _names_of_fork(worker: Any) -> set[str]:
    """Return what a worker's draft-extend names that neither sglang's own nor a patch does."""
    extend = getattr(type(worker), "_draft_extend_for_decode", None)
    imported = getattr(extend and inspect.unwrap(extend), "__globals__", {})
    prepares = [
        getattr(imported.get("EagleDraftInput"), "prepare_for_extend_to_fill_draft_kvcache", None),
        getattr(type(worker), "prepare_for_draft_extend", None),
        imported.get("prepare_for_draft_extend"),
    ]
    return names_of_fork((extend, *prepares), _NAMES)


def _plan_of(runner: Any) -> Callable[[Any], object] | None:
    """Return what plans the attention of a draft-extend's batch on the device alone, as the tree does."""
    backend, width = runner.draft_extend_attn_backend, width_of(runner)
    plan = getattr(backend, _OWN_PLAN, None)
    if is_plain_triton(backend):
        if getattr(backend, "use_sliding_window_kv_pool", False):
            return None
        if plan is not None:
            return lambda batch: plan(_replayed(batch, width))
        return partial(_plan_triton, backend, width) if plans_triton_extend(backend) else None
    if getattr(backend, "needs_cpu_seq_lens", True):
        return None
    if hasattr(backend, "draft_extend_metadata_captured_in_graph"):
        # The forward itself plans.
        plans = is_plain(backend) and backend.draft_extend_metadata_captured_in_graph()
        return (lambda _: None) if plans else None
    return partial(_plan_flash_attention, backend) if is_plain(backend) else None


def _plan_triton(backend: Any, width: int, batch: Any) -> None:
    replay_triton_extend(backend, batch.batch_size, batch.req_pool_indices, batch.seq_lens, width)


def _plan_flash_attention(backend: Any, batch: Any) -> None:
    fill_flash_attention(
        backend,
        batch.batch_size,
        batch.req_pool_indices,
        batch.seq_lens,
        forward_mode=batch.forward_mode,
        spec_info=batch.spec_info,
    )


def _replayed(batch: Any, width: int) -> Any:
    """Return what the tree's runner plans a replay of ``batch`` by, without the mirror."""
    view, spec_info = copy.copy(batch), copy.copy(batch.spec_info)
    spec_info.extend_seq_lens_tensor, spec_info.extend_seq_lens_cpu = (
        batch.extend_seq_lens,
        [width] * batch.batch_size,
    )
    view.spec_info, view.seq_lens_cpu, view.seq_lens_sum = spec_info, None, None
    return view


def capture_tail(runner: Any, size: int, batch: Any, forward: Callable[[], Any], pool: object = None) -> None:
    """Capture the tail of ``size`` requests, once the draft-extend's own graph of that size is captured.

    ``forward`` runs the draft model on ``batch``; ``pool`` is the graphs' memory, where the runner does not know it. If
    a capture fails, no tail is used. Source: pk-tail-graph and pk-planned-tail-graph.
    """
    if not batch.forward_mode.is_draft_extend_v2():
        return
    tails = graphs_of(
        runner, _TAILS, _Tails, lambda: _obstacle(runner, batch), StepGraphs("draft-extend", "tail")
    )
    plan = None if tails is None else _plan_of(runner)
    if tails is None or plan is None:
        return
    target = target_of(runner.eagle_worker)
    verified = outputs_of(target).get(size if backend_of(target) is None else target._make_graph_key(size))
    if verified is None or not _fits(runner, target, verified):
        return
    width, count = tails.width, size * tails.width
    own = target.buffers
    tokens, rows, lens = tails.tokens[:count], tails.rows[:size], tails.lens[:size]
    before, states = own.seq_lens[:size], verified.hidden_states
    inputs = {
        "input_ids": tokens,
        "seq_lens": lens,
        "extend_seq_lens": tails.extends[:size],
        "req_pool_indices": own.req_pool_indices[:size],
        "out_cache_loc": own.out_cache_loc[:count],
        "positions": own.positions[:count],
    }
    of_draft = {"hidden_states": None if states is None else states[:count], "select_index": rows}
    bind = getattr(getattr(runner.model_runner, "kv_index_translator", None), "bind_runner_slots", None)

    def tail() -> tuple[torch.Tensor, torch.Tensor | None]:
        torch.add(before, width, out=lens)
        with having(batch, inputs), having(batch.spec_info, of_draft):
            if bind is not None:
                bind(batch)
            plan(batch)
            output = forward()
        likeliest = torch.argmax(accepted_logits(output.next_token_logits, rows), dim=-1, keepdim=True)
        left = output.hidden_states
        return likeliest, None if left is None else accepted_logits(left, rows)

    def capture() -> _Tail:
        replay, left = capture_beside(runner, (_PATCH, size), tail, pool, runner.draft_extend_attn_backend)
        return _Tail(replay, weakref.ref(target), _address(states), tokens, rows, *left)

    tails.add(runner, size, capture)


def _fits(runner: Any, target: Any, verified: Any) -> bool:
    """Return whether the target's buffers have the form in which the draft-extend's own graph reads them."""
    ours, theirs = runner.buffers, target.buffers
    if getattr(theirs, "out_cache_loc_swa", None) is not None:
        return False
    names = ("seq_lens", "req_pool_indices", "out_cache_loc", "positions")
    read, left = ours.hidden_states, verified.hidden_states
    if (read is None) != (left is None):
        return False
    pairs = [(getattr(ours, name), getattr(theirs, name)) for name in names]
    pairs += [] if read is None else [(read, left)]
    return all(one.dtype == other.dtype and one.shape[1:] == other.shape[1:] for one, other in pairs)


def run_tail(worker: Any, result: Any) -> bool:
    """Extend the draft by a verify's ``result`` in one graph, into its next draft's input; return False if none can.

    Everything that is passed on is a copy, which the next replay does not overwrite. Source: pk-tail-graph and
    pk-planned-tail-graph.
    """
    tails: _Tails | None = getattr(worker.cuda_graph_runner_for_draft_extend, _TAILS, None)
    if tails is None or not tails.by_size:
        return False
    tail = tails.for_step(worker, result)
    tails.count(ran=tail is not None)
    if tail is None:
        return False
    lens, prepared = result.accept_lens, getattr(result, "prepared_draft_extend_inputs", None)
    if prepared is None:
        tokens, rows = wide_tokens(result.next_token_ids, lens), last_accepted(lens, tails.width)
    else:
        _, rows, tokens = prepared
    requests = lens.shape[0]
    copy_together([(tail.tokens[: tokens.shape[0]], tokens), (tail.rows[:requests], rows)])
    with timed(worker, "eagle_draft_extend"):
        tail.replay()
    for name in _READ_DONE:
        # An earlier forward's does not cover what the tail read: the scheduler waits for the whole step.
        if hasattr(worker.draft_runner, name):
            setattr(worker.draft_runner, name, None)
    following = result.next_draft_input
    following.topk_index = tail.likeliest[:requests].clone()
    following.topk_p = unit_scores(following.topk_index)
    following.hidden_states = None if tail.states is None else tail.states[:requests].clone()
    return True
