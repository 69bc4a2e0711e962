"""Which token a decode server's first step of a new request finds where a finished one's last step still runs."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.disaggregation import decode, decode_schedule_batch_mixin
from sglang.srt.managers import overlap_utils
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from .decisions import bare

_ROW = 3
_PREBUILT = decode_schedule_batch_mixin.ScheduleBatchDisaggregationDecodeMixin


class _Streams:
    """The scheduler's stream writes at once, the forward's once somebody waits for it."""

    def __init__(self) -> None:
        self.forward_stream = object()
        self.running: list[Any] = []

    def wait_stream(self, stream: object) -> None:
        assert stream is self.forward_stream
        while self.running:
            self.running.pop(0)()


def _stash(future_map: Any, token: int) -> None:
    """Write a step's token as the scheduler has the forward's stream do it."""
    tokens: Any = torch.tensor([token])
    payload = getattr(overlap_utils, "RelayPayload", None)
    future_map.stash(torch.tensor([_ROW]), tokens if payload is None else payload(bonus_tokens=tokens))


def first_token(*, overlap: bool = True) -> dict[str, Any]:
    """Let a request whose prompt ended in token 42 take the row of one whose redundant step will write token 7.

    Returns the token that its first step finds, and whether the scheduler's stream had to wait for that.
    """
    streams = _Streams()
    pool = SimpleNamespace(req_to_token=torch.zeros((8, 1)), size=4)
    future_map = overlap_utils.FutureMap("cpu", SpeculativeAlgorithm.from_string("NONE"), pool)
    if overlap:
        streams.running.append(lambda: _stash(future_map, 7))
    decode_schedule_batch_mixin.maybe_cache_unfinished_req = lambda *_: None
    batch: Any = SimpleNamespace(
        reqs=[SimpleNamespace(output_ids=[42], grammar=None)],
        device="cpu",
        enable_overlap=overlap,
        spec_algorithm=SpeculativeAlgorithm.from_string("NONE"),
        tree_cache=None,
        prepare_for_prebuilt=lambda: None,
    )
    batch.req_pool_indices, batch.seq_lens = torch.tensor([_ROW]), torch.tensor([5])
    batch.process_prebuilt = lambda *given: _PREBUILT.process_prebuilt(batch, *given)
    vars(decode).update(
        ScheduleBatch=SimpleNamespace(init_new=lambda *_, **__: batch), set_time_batch=lambda *_: None
    )
    scheduler: Any = bare(decode.SchedulerDisaggregationDecodeMixin)
    running = SimpleNamespace(batch_size=lambda: 0)
    vars(scheduler).update(
        vars(streams),
        schedule_stream=streams,
        waiting_queue=[MagicMock(last_node=None, kv_committed_len=None)],
        running_batch=running,
        grammar_manager=SimpleNamespace(has_waiting_grammars=lambda: False),
        enable_priority_scheduling=False,
        max_running_requests=4,
        req_to_token_pool=pool,
        future_map=future_map,
        enable_overlap=overlap,
        server_args=MagicMock(),
        token_to_kv_pool_allocator=None,
        tree_cache=None,
        model_config=None,
        spec_algorithm=None,
    )
    for name in ("get_disagg", "get_server_args"):
        if name in vars(decode):
            setattr(decode, name, MagicMock())
    make = scheduler.get_new_prebuilt_batch
    make(*[running] * len(inspect.signature(make).parameters))
    waited = overlap and not streams.running
    streams.wait_stream(streams.forward_stream)
    return {"token": future_map.output_tokens_buf[_ROW].item(), "waited": waited}
