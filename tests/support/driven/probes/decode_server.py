"""In which order the loop of a decode server launches steps and processes them."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from sglang.srt.disaggregation.decode import SchedulerDisaggregationDecodeMixin
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.model_executor.forward_batch_info import ForwardMode


class _LastError(Exception):
    """The loop has had its steps."""


def _batch(step: int, constrained: bool, speculates: bool) -> Any:
    made = SimpleNamespace(
        step=step,
        has_grammar=constrained,
        is_spec_v2=speculates,
        is_extend_in_batch=False,
        forward_mode=ForwardMode.DECODE,
    )
    made.copy = lambda: made
    return made


def order(constrained: list[bool], *, speculates: bool) -> list[str]:
    """Return what the loop does with decode steps, each with structured output or without, until none is left."""
    steps = [_batch(step, grammar, speculates) for step, grammar in enumerate(constrained)]
    done: list[str] = []
    scheduler = MagicMock()
    scheduler._engine_paused = scheduler.require_mlp_sync = False
    scheduler.get_next_disagg_decode_batch_to_run.side_effect = [*steps, None, _LastError]
    scheduler.run_batch = lambda batch: done.append(f"launch {batch.step}")
    scheduler.process_batch_result = lambda batch, _: done.append(f"process {batch.step}")
    scheduler.on_idle = lambda: done.append("idle")
    decides = Scheduler.is_disable_overlap_for_batch
    scheduler.is_disable_overlap_for_batch = lambda batch: decides(scheduler, batch)
    with suppress(_LastError):
        SchedulerDisaggregationDecodeMixin.event_loop_overlap_disagg_decode(scheduler)
    return done
