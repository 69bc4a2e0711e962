"""Run a step's draft-extend, from the verify's result to the next draft's first tokens, in one graph per batch size.

The graph reads lengths, rows of the pool, slots, positions and hidden states where the target's graph of the same size
has left them; only the verified tokens and the rows of the last accepted ones are copied in. It writes to no buffer of
another graph, except the logits and the backend's own plan, which every other draft-extend writes as well.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ..backends.flash_attention import fill_flash_attention
from .accepted_rows import accepted_logits
from .copies import copy_together
from .draft_chain import unit_scores
from .flash_attention import is_plain
from .known_rows import last_accepted
from .switches import disabled
from .triton_attention import plans_triton_extend, replay_triton_extend
from .verify_outputs import wide_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_logger = logging.getLogger(__name__)
_PATCH = "pk-tail-graph"
_TAILS = "patchkit_tails"


class _Tail(NamedTuple):
    graph: Any
    # The output of the target's graph, whose memory the tail reads.
    verified: Any
    tokens: torch.Tensor
    rows: torch.Tensor
    likeliest: torch.Tensor
    states: torch.Tensor | None


class _Tails:
    """The tails of a draft-extend's runner, by size, and what they were captured for."""

    def __init__(self, runner: Any, target: Any) -> None:
        requests, width = max(runner.capture_bs), runner.num_tokens_per_bs
        device = runner.buffers.input_ids.device
        self.target, self.width = target, width
        self.by_size: dict[int, _Tail] = {}
        self.given_up = False
        self.steps = [0, 0]
        # What an earlier batch leaves for a padding request is valid, and so is this.
        self.tokens = torch.zeros(requests * width, dtype=torch.int64, device=device)
        self.rows = torch.arange(requests, dtype=torch.int64, device=device) * width
        self.lens = torch.ones(requests, dtype=torch.int32, device=device)

    def give_up(self, why: object) -> None:
        self.given_up = True
        self.by_size.clear()
        _logger.info("patchkit: no draft-extend runs as a tail graph: %s", why)

    def count(self, *, ran: bool) -> None:
        """Count a step, and log both counts at each power of ten."""
        self.steps[ran] += 1
        total = sum(self.steps)
        if set(str(total)[1:]) <= {"0"} and str(total)[0] == "1":
            _logger.info("patchkit: of %d draft-extends, %d ran as a tail graph", total, self.steps[True])

    def for_step(self, worker: Any, result: Any) -> _Tail | None:
        """Return the tail for what a verify left, None unless it was a replay of the graph that the tail reads."""
        target = worker.target_worker.model_runner.graph_runner
        if target is not self.target or not result.can_run_cuda_graph or worker.plan_stream is not None:
            return None
        tail = self.by_size.get(target.bs)
        if tail is None or target.output_buffers.get(target.bs) is not tail.verified:
            return None
        lens, states = result.accept_lens, result.logits_output.hidden_states
        if (
            lens.shape[0] != target.raw_bs
            or result.next_token_ids.shape[0] != lens.shape[0] * self.width
            or worker.speculative_num_draft_tokens != self.width
            or _address(states) != _address(tail.verified.hidden_states)
        ):
            return None
        return tail


def _address(states: torch.Tensor | None) -> int | None:
    return None if states is None else states.data_ptr()


def _obstacle(runner: Any, target: Any, batch: Any) -> str | None:
    """Return why the draft-extends of ``runner`` cannot run as tails, None if they can."""
    args, width = runner.model_runner.server_args, runner.num_tokens_per_bs
    model = (runner.model_runner, getattr(runner.model_runner, "model_config", None))
    off = [name for name in (_PATCH, "26397", "35546") if disabled(name)]
    obstacles = {
        f"{', '.join(off)} is disabled": bool(off),
        "this is not CUDA": torch.version.hip is not None
        or batch.seq_lens.device.type not in {"cpu", "cuda"},
        "the draft has several branches": runner.topk != 1,
        "the target has no graphs of as many tokens a request": getattr(target, "num_tokens_per_bs", 0)
        != width,
        "its LM head computes all rows": getattr(batch.spec_info, "select_index", None) is None,
        "its backend is neither plain Triton nor plain FlashAttention-3": _plan_of(runner, batch) is None,
        "ranks share a batch": runner.require_gathered_buffer or runner.require_mlp_sync,
        "two batches overlap": bool(getattr(args, "enable_two_batch_overlap", False)),
        "graphs are compiled": runner.enable_torch_compile,
        "experts are on other ranks": getattr(args, "moe_a2a_backend", "none") != "none",
        # The draft may write to the target's own, of which a draft-extend's own graph has a copy.
        "requests may ask for hidden states": bool(getattr(args, "enable_return_hidden_states", False)),
        "positions are multimodal": any(getattr(each, "model_is_mrope", False) for each in model),
    }
    return next((name for name, found in obstacles.items() if found), None)


def _plan_of(runner: Any, batch: Any) -> Callable[[int, torch.Tensor, torch.Tensor], object] | None:
    """Return what plans the attention of a draft-extend of a graph's size, rows and lengths, without the host."""
    backend = runner.draft_extend_attn_backend
    if plans_triton_extend(backend):
        return partial(_plan_triton, backend, runner.num_tokens_per_bs)
    if is_plain(backend) and not getattr(backend, "needs_cpu_seq_lens", True):
        return partial(
            fill_flash_attention, backend, forward_mode=batch.forward_mode, spec_info=batch.spec_info
        )
    return None


def _plan_triton(backend: Any, width: int, size: int, requests: torch.Tensor, lens: torch.Tensor) -> None:
    replay_triton_extend(backend, size, requests, lens, width)


def _agreed(group: Any, *, done: bool) -> bool:
    """Return whether all ranks are done."""
    if group.world_size == 1:
        return done
    flag = torch.tensor([done], dtype=torch.int32)
    torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MIN, group=group.cpu_group)
    return bool(flag.item())


@contextmanager
def _having(made: object, values: dict[str, object]) -> Iterator[None]:
    """Give an object other attributes for a while."""
    before = {name: getattr(made, name) for name in values}
    vars(made).update(values)
    try:
        yield
    finally:
        vars(made).update(before)


def capture_tail(runner: Any, size: int, batch: Any, forward: Callable[[], Any], pool: object) -> None:
    """Capture the tail of ``size`` requests, once the draft-extend's own graph of that size is captured.

    ``forward`` runs the draft model on ``batch``; ``pool`` is the graphs' memory. If a capture fails on any rank, no
    tail is used on any. Source: pk-tail-graph.
    """
    if not batch.forward_mode.is_draft_extend_v2():
        return
    target = runner.eagle_worker.target_worker.model_runner.graph_runner
    tails: _Tails | None = getattr(runner, _TAILS, None)
    if tails is None:
        tails = _Tails(runner, target)
        setattr(runner, _TAILS, tails)
        if obstacle := _obstacle(runner, target, batch):
            tails.give_up(obstacle)
    verified = getattr(target, "output_buffers", {}).get(size)
    plan = _plan_of(runner, batch)
    if tails.given_up or plan is None or verified is None or not _fits(runner, target, verified):
        return
    width, count = tails.width, size * tails.width
    own = target.buffers
    tokens, rows, lens = tails.tokens[:count], tails.rows[:size], tails.lens[:size]
    before, requests, states = own.seq_lens[:size], own.req_pool_indices[:size], verified.hidden_states
    inputs = {
        "input_ids": tokens,
        "seq_lens": lens,
        "req_pool_indices": requests,
        "out_cache_loc": own.out_cache_loc[:count],
        "positions": own.positions[:count],
    }
    of_draft = {"hidden_states": None if states is None else states[:count], "select_index": rows}

    def tail() -> tuple[torch.Tensor, torch.Tensor | None]:
        torch.add(before, width, out=lens)
        plan(size, requests, lens)
        with _having(batch, inputs), _having(batch.spec_info, of_draft):
            output = forward()
        likeliest = torch.argmax(accepted_logits(output.next_token_logits, rows), dim=-1, keepdim=True)
        left = output.hidden_states
        return likeliest, None if left is None else accepted_logits(left, rows)

    left, failure = None, None
    graph = runner._create_graph()
    try:
        runner._capture_init(tail)
        left = runner._capture_graph(graph, pool, runner.stream, tail)
    except RuntimeError as error:
        failure = error
    if not _agreed(runner.model_runner.tp_group, done=left is not None) or left is None:
        tails.give_up(failure or "a capture failed on another rank")
        return
    tails.by_size[size] = _Tail(graph, verified, tokens, rows, *left)
    if size == min(runner.capture_bs):
        _logger.info("patchkit: draft-extends of %s requests run as tail graphs", sorted(tails.by_size))


def _fits(runner: Any, target: Any, verified: Any) -> bool:
    """Return whether the target's buffers have the form in which the draft-extend's own graph reads them."""
    ours, theirs = runner.buffers, target.buffers
    if getattr(theirs, "out_cache_loc_swa", None) is not None or theirs.seq_lens.dtype != torch.int32:
        return False
    names = ("req_pool_indices", "out_cache_loc", "positions")
    read, left = ours.hidden_states, verified.hidden_states
    if (read is None) != (left is None):
        return False
    pairs = [(getattr(ours, name), getattr(theirs, name)) for name in names]
    pairs += [] if read is None else [(read, left)]
    return all(one.dtype == other.dtype and one.shape[1:] == other.shape[1:] for one, other in pairs)


def run_tail(worker: Any, result: Any) -> bool:
    """Extend the draft by a verify's ``result`` in one graph, into its next draft's input; return False if none can.

    Everything that is passed on is a copy, which the next replay does not overwrite. Source: pk-tail-graph.
    """
    tails: _Tails | None = getattr(worker.cuda_graph_runner_for_draft_extend, _TAILS, None)
    if tails is None or not tails.by_size:
        return False
    tail = tails.for_step(worker, result)
    tails.count(ran=tail is not None)
    if tail is None:
        return False
    lens, tokens = result.accept_lens, wide_tokens(result.next_token_ids, result.accept_lens)
    requests = lens.shape[0]
    copy_together(
        [
            (tail.tokens[: tokens.shape[0]], tokens),
            (tail.rows[:requests], last_accepted(lens, tails.width)),
        ]
    )
    timer = worker.draft_runner.device_timer
    # With forward pass metrics only the first rank has one, and all ranks have to replay the same graph.
    with timer.wrap(metadata={"category": "eagle_draft_extend"}) if timer else nullcontext():
        tail.graph.replay()
    following = result.next_draft_input
    following.topk_index = tail.likeliest[:requests].clone()
    following.topk_p = unit_scores(following.topk_index)
    following.hidden_states = None if tail.states is None else tail.states[:requests].clone()
    return True
