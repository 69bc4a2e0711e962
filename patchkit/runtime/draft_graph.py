"""Run a step's draft of one chain, from its slots to its tokens, in one graph per batch size.

Lengths, rows of the pool, first tokens and hidden states are copied in. The graph looks up slots, plans the attention
of all steps by the tree's own code, and drafts; it writes to buffers of its own. The tree builds its verify from that.
"""

from __future__ import annotations

import inspect
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch

from ..backends.step_buffers import AheadSlots
from ..backends.step_slots import fill_slots_ahead
from .accepted_rows import is_released
from .copies import copy_together
from .flash_attention import is_plain
from .lengths import lens_sum
from .step_graphs import (
    StepGraphs,
    backend_of,
    capture_beside,
    graphs_of,
    having,
    names_of_fork,
    obstacles,
    settled_options,
    timed,
)
from .step_inputs import note_ahead
from .switches import disabled
from .triton_attention import is_plain_triton

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PATCH = "pk-draft-graph"
_GRAPHS, _KIND = "patchkit_drafts", "whole"
# Where later trees note the slots of a verify.
_SLOTS = "prepared_out_cache_loc"
STEPS = {"FlashAttentionMultiStepBackend", "TritonMultiStepDraftBackend"}
"""The backends of all steps of a draft that plan them on the device."""
# What such a graph fills in a draft's place, and what a draft of one chain does not read.
_BUFFERS = {
    *("input_ids", "req_pool_indices", "out_cache_loc", "positions", "hidden_states", "topk_p", "topk_index"),
    *("seq_lens", "seq_lens_cpu", "extend_seq_lens", "mrope_positions"),
    *("global_num_tokens_gpu", "global_num_tokens_for_logprob_gpu"),
}
# What the draft names in the trees that this is for, with the preparation of its batch and the replay of its graph.
_NAMES = """
CaptureHiddenMode ForwardBatch LAST NULL SimpleNamespace _grouped_foreach_copy_ _is_cpu _make_graph_key _pad_to_bucket
_postprocess_output_to_raw_bs _replay_graph _sampling_variant all append arange assign_draft_cache_locs_contiguous
assign_draft_cache_locs_contiguous_cpu assign_draft_cache_locs_contiguous_func backend batch_size
bootstrap_room_ids_int bs buffers build_eagle_verify_input can_run can_run_decode_cuda_graph can_run_dp_cuda_graph
can_run_dp_draft_cuda_graph can_run_graph canary_manager capture_bs captured_req_width clone contextlib contiguous
copy_ cuda_graph_runner deepep_adapter device device_timer device_timer_ctx disable_padding draft_attn_backend
draft_forward draft_probs draft_runner dsa_seed_topk dsa_topk_indices duplicate_prefix_tail_to_draft_branches empty
empty_like execute fill_ forward_mode gather get_spec global_num_tokens_cpu global_num_tokens_for_logprob_gpu
global_num_tokens_gpu hidden_states init_forward_metadata init_forward_metadata_out_graph init_new int int64 is_cuda
is_eagle is_idle is_standalone kv_index_translator kv_loc_plan len list long mark_forward_metadata_ready max max_bs
maybe_detect_nan maybe_detect_oob model_config model_context model_is_mrope model_runner mrope_positions
multimodal_inputs nullcontext num_tokens_for_logprob_per_req num_tokens_per_req original_global_num_tokens_cpu
out_cache_loc page_size patchkit_api plan positions prepare_for_draft prepared_out_cache_loc range raw_bs
repeat_interleave replay req_pool_indices req_to_token req_to_token_pool require_gathered_buffer require_mlp_sync
require_mlp_tp_gather reshape rids_int sampling_info sampling_seed seed_dsa_topk_from_draft_extend seq_len_fill_value
seq_lens seq_lens_cpu seq_lens_sum server_args shape slice spec_algorithm spec_info speculative_num_draft_tokens
speculative_num_steps speculative_use_rejection_sampling target_worker temperatures to token_to_kv_pool
token_to_kv_pool_allocator top_ks topk topk_index topk_p torch tree_mask_mode vars view vocab_size
with_ops_outside_graph wrap write_virtual zero_
"""

_Graph = TypeVar("_Graph")


class ChainGraphs(StepGraphs[_Graph]):
    """The graphs of a draft's runner that draft one chain a request, by size, and what all of them read and write."""

    def __init__(self, runner: Any, kind: str) -> None:
        super().__init__("draft", kind)
        requests, states = max(runner.capture_bs), runner.buffers.hidden_states
        self.width = runner.speculative_num_steps + 1
        device = runner.buffers.seq_lens.device

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        # A request has a length, and padding has not.
        self.lens, self.rows, self.none, self.padded = (zeros(requests) for _ in range(4))
        self.index, self.scores = zeros(requests, 1), torch.ones((requests, 1), device=device)
        self.states = None if states is None else torch.zeros_like(states[:requests])
        self.least = torch.full_like(self.lens, runner.seq_len_fill_value)
        self.ahead = zeros(2 * requests * self.width)

    def ahead_of(self, size: int) -> AheadSlots:
        """Return where the slots of a batch of ``size`` requests are."""
        sizes = (size * (self.width - 1), size * self.width, size)
        buffer = self.ahead[: sum(sizes)]
        return AheadSlots(buffer, *buffer.split_with_sizes(sizes))

    def drafted(self, size: int) -> dict[str, object]:
        """Return the draft's input for the batch of a graph."""
        states = None if self.states is None else self.states[:size]
        return {"topk_p": self.scores[:size], "topk_index": self.index[:size], "hidden_states": states}

    def size_of(self, worker: Any, batch: Any) -> int | None:
        """Return the size of the graph for a batch, None if it has what no graph is for."""
        drafted, lens = batch.spec_info, batch.seq_lens
        requests, runner = lens.shape[0], worker.cuda_graph_runner
        size: int = requests
        if not runner.disable_padding and requests <= runner.max_bs:
            size = runner.capture_bs[bisect_left(runner.capture_bs, requests)]
        if (
            size not in self.by_size
            or not batch.forward_mode.is_decode()
            or getattr(batch, "global_num_tokens", None) is not None
            or worker.plan_stream is not None
            or worker.speculative_num_draft_tokens != self.width
            or lens.dtype != torch.int64
        ):
            return None
        index, states = drafted.topk_index, drafted.hidden_states
        if index.shape != (requests, 1) or (states is None) != (self.states is None):
            return None
        if self.states is not None and (
            states.dtype != self.states.dtype or states.shape != self.states[:requests].shape
        ):
            return None
        return size

    def fill(self, size: int, batch: Any, more: Sequence[tuple[torch.Tensor, torch.Tensor]] = ()) -> None:
        """Copy what the graph of ``size`` requests reads from a batch, with ``more`` pairs."""
        drafted, lens, rows = batch.spec_info, batch.seq_lens, batch.req_pool_indices
        requests = lens.shape[0]
        copies = [
            (self.lens[:requests], lens),
            (self.rows[:requests], rows),
            (self.index[:requests], drafted.topk_index),
            *more,
        ]
        if self.states is not None:
            copies.append((self.states[:requests], drafted.hidden_states))
        if padding := size - requests:
            values = (self.lens, self.rows, self.index[:, 0])
            copies += [(value[requests:size], self.none[:padding]) for value in values]
            if self.states is not None:
                # Scales of a whole batch must not depend on an earlier one.
                self.states[requests:size].zero_()
        copy_together(copies)


def chain_obstacles(runner: Any, batch: Any, pool: Any) -> dict[str, bool]:
    """Return which hold of the reasons for which no draft of ``runner`` is a chain in a graph of its own.

    ``pool`` has the rows of requests.
    """
    return {
        "the draft is no chain": runner.eagle_worker.speculative_num_draft_tokens
        != runner.speculative_num_steps + 1,
        "the pool has no row for padding": 0 in getattr(pool, "free_slots", [0]),
        "the pool is not contiguous": not pool.req_to_token.is_contiguous(),
        # These are copied by slots that a step keeps.
        "requests may ask for their experts": bool(
            settled_options(runner).get("enable_return_routed_experts")
        ),
        **obstacles(runner, batch, _BUFFERS),
    }


class _Draft(NamedTuple):
    replay: Callable[[], object]
    # Parents, their order, and tokens.
    tree: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    slots: torch.Tensor
    positions: torch.Tensor


def _obstacle(runner: Any, batch: Any) -> str | None:
    """Return why the drafts of ``runner`` cannot run in such graphs, None if they can."""
    worker: Any = getattr(runner, "eagle_worker", None)
    if not is_released(runner) or backend_of(runner) is None:
        # These need not have what is read below.
        return "its runner or worker is a class of its own"
    if names := _names_of_fork(worker, runner):
        return f"the worker's draft has code of its own ({', '.join(sorted(names))})"
    steps = runner.draft_attn_backend
    found = {
        f"{_PATCH} is disabled": disabled(_PATCH),
        **chain_obstacles(runner, batch, worker.req_to_token_pool),
        "its backend is neither plain Triton nor plain FlashAttention-3": type(steps).__name__ not in STEPS
        or not all(map(_plans_on_device, steps.attn_backends)),
        "its window has slots of its own": getattr(steps, "window_rail", False),
    }
    return next((why for why, holds in found.items() if holds), None)


def _names_of_fork(worker: Any, runner: Any) -> set[str]:
    """Return what is named where a graph takes the tree's place that neither sglang's own nor a patch does."""
    draft = getattr(type(worker), "draft", None)
    imported = getattr(draft and inspect.unwrap(draft), "__globals__", {})
    names = ("can_run_graph", "execute", "_replay_graph", "_postprocess_output_to_raw_bs")
    functions = (getattr(type(runner), name, None) for name in names)
    return names_of_fork((draft, imported.get("prepare_for_draft"), *functions), _NAMES)


def _plans_on_device(backend: Any) -> bool:
    if is_plain_triton(backend):
        return not getattr(backend, "use_sliding_window_kv_pool", False)
    return is_plain(backend) and not getattr(backend, "needs_cpu_seq_lens", True)


def capture_draft(runner: Any, size: int, batch: Any, forward: Callable[[], Any]) -> None:
    """Capture the draft of ``size`` requests with its inputs, once its own graph of that size is captured.

    ``forward`` drafts ``batch``. If a capture fails, no such graph is used. Source: pk-draft-graph.
    """
    made: ChainGraphs[_Draft] | None = graphs_of(
        runner,
        _GRAPHS,
        lambda own: ChainGraphs(own, _KIND),
        lambda: _obstacle(runner, batch),
        StepGraphs("draft", _KIND),
    )
    if made is None:
        return
    ahead, rows, lens = made.ahead_of(size), made.rows[:size], made.padded[:size]
    table = runner.eagle_worker.req_to_token_pool.req_to_token
    inputs: dict[str, object] = {
        "req_pool_indices": rows,
        "seq_lens": lens,
        "seq_lens_cpu": None,
        "seq_lens_sum": None,
        "out_cache_loc": ahead.drafted,
        "positions": ahead.positions,
        "num_padding": 0,
    }
    bind = getattr(getattr(runner.model_runner, "kv_index_translator", None), "bind_runner_slots", None)

    def draft() -> Any:
        fill_slots_ahead(made.lens[:size], rows, table, ahead)
        torch.maximum(made.lens[:size], made.least[:size], out=lens)
        with having(batch, inputs), having(batch.spec_info, made.drafted(size)):
            if bind is not None:
                bind(batch)
            runner.draft_attn_backend.init_forward_metadata_out_graph(batch)
            return tuple(forward()[:3])

    def capture() -> _Draft:
        replay, tree = capture_beside(runner, (_PATCH, size), draft, None, runner.draft_attn_backend)
        return _Draft(replay, tree, ahead.verified, ahead.positions)

    made.add(runner, size, capture)


def run_draft(worker: Any, batch: Any, build: Callable[..., Any]) -> Any:
    """Draft ``batch`` in one graph; return what ``build``, the tree's function, makes of it, or None if none can.

    Source: pk-draft-graph.
    """
    graphs: ChainGraphs[_Draft] | None = getattr(worker.cuda_graph_runner, _GRAPHS, None)
    if graphs is None or not graphs.by_size:
        return None
    size = graphs.size_of(worker, batch)
    graphs.count(ran=size is not None)
    if size is None:
        return None
    graph, requests, width = graphs.by_size[size], batch.seq_lens.shape[0], graphs.width
    graphs.fill(size, batch)
    with timed(worker, "eagle_draft"):
        graph.replay()
    if batch.seq_lens_sum is None:
        # As the tree does when it makes the draft's batch; it sizes a mask by that.
        batch.seq_lens_sum = lens_sum(batch.seq_lens_cpu)
    made = build(
        batch,
        batch.spec_info,
        *(each[:requests] for each in graph.tree),
        None,
        target_worker=worker.target_worker,
        topk=1,
        num_steps=width - 1,
        num_draft_tokens=width,
        tree_mask_mode=worker.tree_mask_mode,
        device=worker.device,
    )
    slots = graph.slots[: requests * width]
    if not hasattr(made, _SLOTS):
        note_ahead(batch, width, slots, graph.positions[:requests])
    elif getattr(made, _SLOTS) is None:
        setattr(made, _SLOTS, slots)
    return made
