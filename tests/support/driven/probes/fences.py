"""The order of operations in the overlap scheduler's loops, and in a graph runner before its graph runs."""

from __future__ import annotations

from collections import deque
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.disaggregation.decode import SchedulerDisaggregationDecodeMixin
from sglang.srt.disaggregation.prefill import SchedulerDisaggregationPrefillMixin
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from . import repeatable
from .accepted_rows import batch_of, worker_of
from .decisions import bare

_LOOPS: dict[str, Any] = {
    "overlap": Scheduler.event_loop_overlap,
    "prefill": SchedulerDisaggregationPrefillMixin.event_loop_overlap_disagg_prefill,
    "decode": SchedulerDisaggregationDecodeMixin.event_loop_overlap_disagg_decode,
}


class _EndedError(Exception):
    """The loop has had its batches."""


class TritonAttnBackend:
    """Has the name of the backend whose graphs read only their own buffers."""


@repeatable
def loop(kind: str, published: list[bool], *, cuda: bool = True) -> list[list[Any]]:
    """Run a loop with these batches, whose forwards may signal the end of their reads; return its operations."""
    torch.version.cuda = "12.0" if cuda else None
    done: list[list[Any]] = []
    waiting = deque(enumerate(published))
    scheduler = MagicMock()
    scheduler._engine_paused = scheduler.enable_staging = scheduler.gracefully_exit = False
    scheduler._war_barrier_enabled = cuda
    scheduler.last_batch = None
    scheduler.is_disable_overlap_for_batch.return_value = False
    # Of a tree whose runners say themselves when they have read.
    runner = SimpleNamespace(war_fastpath_read_done_event=None)
    if hasattr(Scheduler, "_apply_war_barrier"):
        scheduler.model_worker.war_fastpath_runner = runner
        scheduler._apply_war_barrier = lambda: Scheduler._apply_war_barrier(scheduler)
    else:
        del scheduler._apply_war_barrier

    def prepare() -> Any:
        if not waiting:
            raise _EndedError
        number, publishes = waiting.popleft()
        done.append(["prepare", number])
        batch = MagicMock(number=number, publishes=publishes)
        batch.copy.return_value = batch
        return batch

    def run(batch: Any) -> Any:
        done.append(["launch", batch.number])
        if batch.publishes and hasattr(scheduler, "_apply_war_barrier"):
            runner.war_fastpath_read_done_event = SimpleNamespace(number=batch.number)
        elif batch.publishes:
            _replayed(batch.number)
        return SimpleNamespace(number=batch.number)

    scheduler.get_next_batch_to_run = prepare
    scheduler.get_next_disagg_prefill_batch_to_run = scheduler.get_next_disagg_decode_batch_to_run = prepare
    scheduler.run_batch = run
    scheduler.process_batch_result = lambda batch, _: done.append(["result", batch.number])
    scheduler.forward_stream = "forward"
    scheduler.schedule_stream.wait_stream = lambda stream: done.append(["wait for all", stream])
    scheduler.schedule_stream.wait_event = lambda event: done.append(["wait for reads", event.number])
    try:
        _LOOPS[kind](scheduler)
    except _EndedError:
        return done
    raise AssertionError


def _events(done: list[Any], number: int) -> Any:
    def event() -> Any:
        return SimpleNamespace(number=number, record=lambda: done.append("reads are done"))

    return lambda _: SimpleNamespace(Event=event)


def _replayed(
    number: int, backend: str = "TritonAttnBackend", *, speculates: bool = False, windows: bool = False
) -> list[str]:
    """Replay a decode's graph; return its runner's operations in order."""
    done: list[str] = []
    torch.get_device_module = _events(done, number)
    runner: Any = bare(import_module("sglang.srt.model_executor.cuda_graph_runner").CudaGraphRunner)
    pool = SimpleNamespace(full_to_swa_index_mapping=None) if windows else object()
    vars(runner).update(
        deepep_adapter=SimpleNamespace(replay=lambda: None),
        replay_prepare=lambda *_: done.append("metadata"),
        _resolve_lora_variant=lambda _: None,
        _make_graph_key=lambda *_: 1,
        enable_pdmux=False,
        is_dllm=False,
        bs=1,
        raw_num_token=1,
        buffers=MagicMock(),
        graphs={1: SimpleNamespace(replay=lambda: done.append("graph"))},
        output_buffers={1: SimpleNamespace(tensors={})},
        model_runner=SimpleNamespace(
            attn_backend=type(backend, (), {})(),
            device_timer=None,
            is_draft_worker=False,
            token_to_kv_pool=pool,
            spec_algorithm=SimpleNamespace(is_none=lambda: not speculates, is_dflash=lambda: False),
        ),
    )
    batch = SimpleNamespace(
        forward_mode=ForwardMode.TARGET_VERIFY if speculates else ForwardMode.DECODE,
        seq_lens=torch.ones(1),
        spec_info=None,
        needs_forward_metadata_init=lambda: True,
    )
    try:
        runner.replay(batch)
    except (AssertionError, AttributeError):
        # What the graph left is nobody's here.
        assert done[-1] == "graph"
    return done


def decode(backend: str, *, speculates: bool = False, windows: bool = False) -> list[str]:
    """Replay the graph of a decode or a verify; return its runner's operations in order."""
    return _replayed(0, backend, speculates=speculates, windows=windows)


def draft_extend() -> list[str]:
    """Replay a draft-extend's graph; return its runner's operations in order."""
    case = {"draft_tokens": 4, "captured": [2], "graph": True}
    worker = worker_of(case)
    done: list[str] = []
    torch.get_device_module = _events(done, 0)
    runner = worker.cuda_graph_runner_for_draft_extend
    replay = runner._replay
    backend: Any = TritonAttnBackend()
    for plan in ("init_forward_metadata_replay_cuda_graph", "init_forward_metadata_out_graph"):
        setattr(backend, plan, lambda *_, **__: done.append("metadata"))
    runner.draft_extend_attn_backend = backend
    runner.model_runner.token_to_kv_pool = None

    def replayed(batch: Any) -> Any:
        done.append("graph")
        return replay(batch)

    runner._replay = replayed
    batch = batch_of(case, 1, 0)
    batch.spec_info.select_index = torch.zeros(1, dtype=torch.int64)
    runner.replay(batch)
    return done
