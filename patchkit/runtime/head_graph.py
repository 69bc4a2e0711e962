"""Run a step's draft of one chain, from its slots to its verify's inputs and plan, in one graph per batch size.

Lengths, rows of the pool, first tokens and hidden states are copied in. The graph draws all else from these: it writes
to buffers of its own, which the batch is given, to those of the target's graph of the same size, and plans both.
"""

from __future__ import annotations

import inspect
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..backends.chain_inputs import fill_chains
from ..backends.step_buffers import ChainDrafts, ChainInputs, ChainMask
from ..backends.step_slots import fill_slots_ahead
from .accepted_rows import is_released
from .constants import made_once
from .draft_graph import STEPS, ChainGraphs, chain_obstacles
from .flash_attention import is_plain
from .step_graphs import (
    StepGraphs,
    capture_beside,
    graphs_of,
    has_others,
    having,
    names_of_fork,
    outputs_of,
    target_of,
    timed,
    width_of,
)
from .step_inputs import note_ahead
from .streams import current_handle
from .switches import disabled
from .triton_attention import is_plain_triton
from .verify_outputs import bonus_as

if TYPE_CHECKING:
    from collections.abc import Callable

_PATCH = "pk-head-graph"
_HEADS, _MADE = "patchkit_heads", "patchkit_made_by_head"
# What a head fills of a verify, and what that of a chain does not read.
_TARGETS = {
    *("input_ids", "req_pool_indices", "out_cache_loc", "positions", "seq_lens", "seq_lens_cpu"),
    *("input_embeds", "mrope_positions", "num_token_non_padded", "custom_mask", "next_token_logits_buffer"),
    *("global_num_tokens_gpu", "global_num_tokens_for_logprob_gpu"),
}
# What the draft names in the trees that this is for, with the preparation of its batch, and with the replay of its
# graph and the copies and plan of its verify's.
_NAMES = """
CaptureHiddenMode EagleVerifyInput ForwardBatch LAST NULL _grouped_foreach_copy_ _postprocess_output_to_raw_bs
_replay _replay_forward_batch append assign_draft_cache_locs_page_size_1 attn_backend batch_size bisect
bisect_left bonus_tokens bs buffers build_tree_kernel_efficient can_run can_run_dp_cuda_graph capture_bs
capture_forward_mode capture_hidden_mode column_starts compute_local_num_token_non_padded copy_
create_idle_input cuda_graph_runner custom_mask decode_attn_backend_group deepep_adapter device
disable_padding draft_attn_backend draft_forward draft_runner empty enable_num_token_non_padded enable_pdmux
enable_two_batch_overlap encoder_lens fill_ forward_mode get_current_stream_idx
get_verify_buffers_to_fill_after_draft global_num_tokens_cpu global_num_tokens_for_logprob_gpu
global_num_tokens_gpu graphs hidden_states hisparse_coordinator init_forward_metadata
init_forward_metadata_replay_cuda_graph init_new input_embeds input_ids int64 is_dflash is_draft_worker
is_eagle is_encoder_decoder is_idle is_standalone items len mamba_track_indices mamba_track_mask max max_bs
maybe_detect_nan maybe_detect_oob model_config model_runner mrope_positions ngram_embedding_info
nsa_enable_prefill_cp num_real_reqs num_token_non_padded num_tokens_for_logprob_per_req num_tokens_per_bs
num_tokens_per_req out_cache_loc out_cache_loc_swa output_buffers patchkit_api populate_from_forward_batch
positions pp_proxy_tensors prepare_for_v2_draft raw_bs raw_num_token recapture_if_needed repeat_interleave
replay replay_prepare req_lens req_pool_indices req_to_token req_to_token_pool require_gathered_buffer
require_mlp_sync require_mlp_tp_gather seq_len_fill_value seq_lens seq_lens_cpu seq_lens_sum server_args shape
spec_algorithm spec_info speculative_num_draft_tokens speculative_num_steps target_worker tbo_plugin tensors
topk topk_index topk_p torch tree_mask_mode verified_id vocab_size zero_
"""


class _Links(NamedTuple):
    """What a batch of chains is to the verify of a tree: int64, [requests, tokens]; read only."""

    places: torch.Tensor
    following: torch.Tensor
    siblings: torch.Tensor
    # Boolean, [requests, tokens x tokens].
    mask: torch.Tensor


def _make_links(rows: int, width: int, device: torch.device) -> _Links:
    places = torch.arange(rows * width, device=device).view(rows, width)
    following = torch.arange(1, width + 1, device=device).repeat(rows, 1)
    following[:, -1] = -1
    mask = torch.ones((width, width), dtype=torch.bool, device=device).tril()
    return _Links(places, following, torch.full_like(places, -1), mask.flatten().repeat(rows, 1))


class _Head(NamedTuple):
    replay: Callable[[], object]
    # Not kept where the server captures its graphs again.
    target: weakref.ref[Any]
    slots: torch.Tensor
    mask: torch.Tensor | None


class _Made(NamedTuple):
    """What a head's replay left for a verify; noted on its input."""

    head: _Head
    size: int
    stream: object
    inputs: dict[str, torch.Tensor]


class _Heads(ChainGraphs[_Head]):
    """The heads of a draft's runner, by size, and the buffers that all of them use."""

    def __init__(self, runner: Any) -> None:
        super().__init__(runner, "head")
        self.bonus = torch.zeros_like(self.lens)
        # No graph's memory: the target's graph may write to what is free there.
        self.tokens, self.positions = (self.lens.new_zeros(len(self.lens) * self.width) for _ in range(2))

    def size_of(self, worker: Any, batch: Any) -> int | None:
        """Return the size of the head for a batch, None if it has what no head is for."""
        size = super().size_of(worker, batch)
        return size if size is not None and self.by_size[size].target() is target_of(worker) else None


def _obstacle(runner: Any, batch: Any) -> str | None:
    """Return why the drafts of ``runner`` cannot run as heads, None if they can."""
    worker: Any = getattr(runner, "eagle_worker", None)
    if not is_released(runner) or type(target := target_of(worker)).__name__ != "CudaGraphRunner":
        # These need not have what is read below.
        return "its runner or worker, or the target's runner, is a class of its own"
    if names := _names_of_fork(worker, runner, target):
        return f"the worker's draft or verify has code of its own ({', '.join(sorted(names))})"
    off = [name for name in (_PATCH, "pk-step-inputs", "pk-triton-replay") if disabled(name)]
    width, steps = runner.speculative_num_steps + 1, runner.draft_attn_backend
    found = {
        f"{', '.join(off)} is disabled": bool(off),
        **chain_obstacles(runner, batch, batch.req_to_token_pool),
        "the target has no graphs of as many tokens a request": width_of(target) != width,
        "the target has a buffer of its own": has_others(target.buffers, _TARGETS),
        "requests are sparse": getattr(target.model_runner, "hisparse_coordinator", None) is not None,
        "its backends are neither plain Triton nor plain FlashAttention-3": type(steps).__name__ not in STEPS
        or not all(map(_plans_on_device, (target.attn_backend, *steps.attn_backends))),
    }
    return next((why for why, holds in found.items() if holds), None)


def _names_of_fork(worker: Any, runner: Any, target: Any) -> set[str]:
    """Return what is named where a head takes the tree's place that neither sglang's own nor a patch does."""
    draft = getattr(type(worker), "draft", None)
    imported = getattr(draft and inspect.unwrap(draft), "__globals__", {})
    functions = {
        "prepare_for_v2_draft": imported.get("EagleDraftInput"),
        "can_run": type(runner),
        "replay": type(runner),
        "replay_prepare": type(target),
        "populate_from_forward_batch": type(target.buffers),
    }
    return names_of_fork((draft, *(getattr(owner, name, None) for name, owner in functions.items())), _NAMES)


def _plans_on_device(backend: Any) -> bool:
    """Return whether the tree plans a graph of a backend on the device alone, and a verify reads no mask's prefix."""
    if is_plain_triton(backend):
        kernel = getattr(backend, "extend_attention_fwd", None)
        skips = kernel and inspect.signature(kernel).parameters.get("skip_prefix_custom_mask")
        # The kernel of deterministic inference reads all of it.
        return bool(skips and skips.default is True) and not getattr(backend, "enable_deterministic", False)
    return is_plain(backend) and not getattr(backend, "needs_cpu_seq_lens", True)


def capture_head(runner: Any, size: int, batch: Any, forward: Callable[[], Any], pool: object = None) -> None:
    """Capture the head of ``size`` requests, once the draft's own graph of that size is captured.

    ``forward`` drafts ``batch``; ``pool`` is the graphs' memory. If a capture fails, no head is used. Source:
    pk-head-graph.
    """
    heads = graphs_of(runner, _HEADS, _Heads, lambda: _obstacle(runner, batch), StepGraphs("draft", "head"))
    if heads is None:
        return
    target, width = target_of(runner.eagle_worker), heads.width
    if size not in outputs_of(target):
        return
    own, ahead, attention = target.buffers, heads.ahead_of(size), target.attn_backend
    lens, rows, seq_lens = heads.lens[:size], heads.rows[:size], own.seq_lens[:size]
    inputs: dict[str, object] = {
        "req_pool_indices": rows,
        "seq_lens": seq_lens,
        "seq_lens_cpu": None,
        "out_cache_loc": ahead.drafted,
        "positions": ahead.positions,
    }
    count = size * width
    filled = ChainInputs(
        heads.tokens[:count],
        heads.positions[:count],
        own.input_ids[:count],
        own.positions[:count],
        own.out_cache_loc[:count],
        own.req_pool_indices[:size],
    )
    tree, mask = target.get_spec_info(count), None
    if is_plain_triton(attention):
        mask = ChainMask(attention.cuda_graph_custom_mask, attention.mask_indptr, seq_lens)
    # A mask that is where the graph reads it is not copied there.
    tree.custom_mask = mask and mask.mask

    def head() -> tuple[()]:
        fill_slots_ahead(lens, rows, batch.req_to_token_pool.req_to_token, ahead)
        torch.maximum(lens, heads.least[:size], out=seq_lens)
        with having(batch, inputs), having(batch.spec_info, heads.drafted(size)):
            runner.draft_attn_backend.init_forward_metadata_replay_cuda_graph(batch, size)
            drafts = forward()[2]
        attention.init_forward_metadata_replay_cuda_graph(
            size, rows, seq_lens, None, None, target.capture_forward_mode, tree, seq_lens_cpu=None
        )
        # The verify's positions may be in the memory of the draft's own, which no step of it reads any more.
        fill_chains(ChainDrafts(lens, rows, heads.bonus[:size], drafts, ahead.verified), filled, mask)
        return ()

    def capture() -> _Head:
        replay, _ = capture_beside(runner, (_PATCH, size), head, pool, runner.draft_attn_backend)
        return _Head(replay, weakref.ref(target), ahead.verified, mask and mask.mask)

    heads.add(runner, size, capture)


def run_head(worker: Any, batch: Any, verify_input: Callable[..., Any]) -> Any:
    """Draft ``batch`` in one graph; return what ``verify_input``, the tree's class, makes of it, or None if none can.

    Its tensors are overwritten by the next draft. Source: pk-head-graph.
    """
    heads: _Heads | None = getattr(worker.cuda_graph_runner, _HEADS, None)
    if heads is None or not heads.by_size:
        return None
    size = heads.size_of(worker, batch)
    heads.count(ran=size is not None)
    if size is None:
        return None
    head, drafted, lens, rows = heads.by_size[size], batch.spec_info, batch.seq_lens, batch.req_pool_indices
    requests, width = lens.shape[0], heads.width
    count = requests * width
    bonus = getattr(drafted, "bonus_tokens", None)
    bonus = drafted.verified_id if bonus is None else bonus
    heads.fill(size, batch, [(heads.bonus[:requests], bonus_as(bonus, torch.int64))])
    with timed(worker, "eagle_draft"):
        head.replay()
    tokens, positions, slots = heads.tokens[:count], heads.positions[:count], head.slots[:count]
    note_ahead(batch, width, slots, positions)
    links = made_once(_make_links, requests, width, lens.device) or _make_links(requests, width, lens.device)
    made = verify_input(
        draft_token=tokens,
        custom_mask=links.mask[:requests].flatten() if head.mask is None else head.mask,
        positions=positions,
        retrieve_index=links.places[:requests],
        retrieve_next_token=links.following[:requests],
        retrieve_next_sibling=links.siblings[:requests],
        retrieve_cum_len=None,
        spec_steps=width - 1,
        topk=1,
        draft_token_num=width,
        capture_hidden_mode=None,
        seq_lens_sum=None,
        seq_lens_cpu=None,
    )
    inputs = {
        "input_ids": tokens,
        "positions": positions,
        "out_cache_loc": slots,
        "seq_lens": lens,
        "req_pool_indices": rows,
    }
    setattr(made, _MADE, _Made(head, size, current_handle(lens.device), inputs))
    return made


def is_prepared(runner: Any, batch: Any) -> bool:
    """Return whether a head has prepared the replay of the target's graph for ``batch``, and pass its size on.

    That is so for a batch with the very tensors that the head left, once. Source: pk-head-graph.
    """
    made: _Made | None = getattr(batch.spec_info, _MADE, None)
    if made is None:
        return False
    delattr(batch.spec_info, _MADE)
    same_runner = made.head.target() is runner
    if (
        not same_runner
        or made.stream != current_handle(batch.seq_lens.device)
        or batch.capture_hidden_mode != runner.capture_hidden_mode
        or any(getattr(batch, name) is not value for name, value in made.inputs.items())
    ):
        return False
    runner.bs, runner.raw_bs = made.size, batch.seq_lens.shape[0]
    runner.raw_num_token = made.inputs["input_ids"].shape[0]
    return True
