"""What a step of a speculative worker finds of the step before, through the scheduler's own run of a batch."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.disaggregation import decode_schedule_batch_mixin
from sglang.srt.managers import overlap_utils
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.speculative.eagle_info import EagleDraftInput
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import repeatable
from .decisions import bare
from .drafts import HIDDEN, _Operators

_TOKENS = (
    "bonus_tokens" if "bonus_tokens" in {field.name for field in fields(EagleDraftInput)} else "verified_id"
)
_HAS_POOL = hasattr(overlap_utils.FutureMap, "stash")
_SLOTS = 12
_MOVED = {"index", "index_put", "index_put_", "copy_"}


class _ForwardStream(torch.cpu.Stream):
    """A stream whose results are there only for itself, and for a stream that has waited for it."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[torch.Tensor] = []
        self.late: list[tuple[torch.Tensor, Any]] = []
        self.context: list[Any] = []

    def arrive(self) -> None:
        # Through NumPy, so that no operator is seen.
        for result, value in self.late:
            result.numpy()[...] = value
        self.late = []

    def __enter__(self) -> None:
        self.arrive()
        self.context.append(torch.cpu.stream(self))
        self.context[-1].__enter__()

    def __exit__(self, *raised: object) -> None:
        self.context.pop().__exit__(*raised)
        self.late = [(result, result.numpy().copy()) for result in self.results]
        for result in self.results:
            result.numpy()[...] = 0
        self.results = []


def _wait_stream(_: torch.cpu.Stream, stream: object) -> None:
    if isinstance(stream, _ForwardStream):
        stream.arrive()


class _Mode:
    def is_prebuilt(self) -> bool:
        return False

    def is_decode(self) -> bool:
        return True

    def is_idle(self) -> bool:
        return False


@dataclass
class _Batch:
    rows: list[int]
    spec_info: Any
    prefill: bool = False
    device: str = "cpu"
    tree_cache: Any = None
    extend_lens: Any = ()
    enable_overlap: bool = True
    is_spec_v2: bool = True
    return_logprob: bool = False
    return_hidden_states: bool = False
    prefill_input_ids_cpu: Any = None
    mix_running_indices: Any = None
    input_ids: Any = None
    output_ids: Any = None
    seq_lens_cpu: Any = None
    seq_lens_sum: Any = None
    sampling_info: Any = None
    forward_iter: int = 0

    def __post_init__(self) -> None:
        self.spec_algorithm = SpeculativeAlgorithm.from_string("EAGLE")
        self.forward_mode = _Mode()
        self.reqs = self.rows
        self.req_pool_indices = torch.tensor(self.rows)
        self.seq_lens = torch.zeros(len(self.rows), dtype=torch.int64)

    def get_model_worker_batch(self) -> Any:
        sampling_info = SimpleNamespace(copy_for_forward=lambda: None)
        return SimpleNamespace(
            spec_info=self.spec_info, seq_lens=self.seq_lens, sampling_info=sampling_info, batch=self
        )


class _Worker:
    """Each step's results are numbers that nothing else has; its draft changes the input, as eager ones do."""

    def __init__(self, stream: _ForwardStream) -> None:
        self.stream = stream
        self.made = 0
        self.found: list[dict[str, Any]] = []

    def forward_batch_generation(self, batch: Any, on_publish: Any = None) -> Any:
        owner = getattr(batch, "batch", batch)
        rows = len(owner.rows)
        given = batch.spec_info
        if given is not None:
            names = ("topk_p", "topk_index", _TOKENS, "hidden_states")
            fields = {name: getattr(given, name).tolist() for name in names}
            self.found.append(fields | {"lens": owner.seq_lens.tolist()})
            given.hidden_states = given.hidden_states + 1000
        numbers = torch.arange(self.made, self.made + rows)
        self.made += rows
        lens = numbers + 300
        if on_publish is not None:
            on_publish(lens)
        results = EagleDraftInput(
            topk_p=numbers[:, None] / 8,
            topk_index=numbers[:, None] + 100,
            hidden_states=numbers[:, None] + torch.arange(HIDDEN) / 4,
            # A greedy prefill leaves them as argmax has them, in 64 bits.
            **{_TOKENS: (numbers if owner.prefill else numbers.int()) + 200},
        )
        self.stream.results = [
            results.topk_p,
            results.topk_index,
            results.hidden_states,
            getattr(results, _TOKENS),
        ]
        if not _HAS_POOL:
            results.new_seq_lens = lens
        return SimpleNamespace(
            next_draft_input=results,
            next_token_ids=numbers,
            accept_lens=None if owner.prefill else torch.ones(rows, dtype=torch.int32),
            delay_sample_func=None,
            extra_keep_alive_refs=None,
            copy_to_cpu=lambda **_: None,
        )


def _arrived(rows: list[int], future_map: Any) -> Any:
    """Return a batch whose prefill another server did, as a decode server makes it on the scheduler's stream."""
    decode_schedule_batch_mixin.maybe_cache_unfinished_req = lambda *_: None
    batch: Any = _Batch(rows, None)
    batch.reqs = [
        SimpleNamespace(
            output_ids=[900 + row],
            grammar=None,
            output_topk_p=torch.tensor([row / 16]),
            output_topk_index=torch.tensor([700 + row]),
            hidden_states_tensor=torch.full((HIDDEN,), row / 2),
        )
        for row in rows
    ]
    batch.seq_lens = batch.req_pool_indices + 50
    server_args = SimpleNamespace(speculative_eagle_topk=1, enable_multi_layer_eagle=False)
    decode_schedule_batch_mixin.ScheduleBatchDisaggregationDecodeMixin.process_prebuilt(
        batch, server_args, future_map
    )
    return batch


class _Fork(overlap_utils.FutureMap):
    """A fork's map, which reads a row once more."""

    def resolve_future(self, batch: Any) -> None:
        super().resolve_future(batch)
        self._read(batch)

    def _resolve_spec_extras(self, batch: Any) -> None:
        super()._resolve_spec_extras(batch)
        self._read(batch)

    def resolve_seq_lens_cpu(self, batch: Any) -> None:
        super().resolve_seq_lens_cpu(batch)
        if batch.spec_info is not None:
            batch.seq_lens = self.new_seq_lens_buf[batch.spec_info.future_indices]

    def _read(self, batch: Any) -> None:
        if batch.spec_info is not None:
            at = batch.spec_info.future_indices
            batch.spec_info.topk_index = self.topk_index_buf[at if _HAS_POOL else at.indices]


def _scheduler(worker: _Worker, kind: Any) -> Any:
    torch.Tensor.record_stream = lambda *_: None  # type: ignore[method-assign]
    torch.cpu.Stream.wait_stream = _wait_stream  # type: ignore[assignment,method-assign]
    overlap_utils.spec_need_hidden_states = lambda: True
    algorithm = SpeculativeAlgorithm.from_string("EAGLE")
    if _HAS_POOL:
        pool = SimpleNamespace(req_to_token=torch.zeros((_SLOTS, 1)))
        future_map = kind("cpu", algorithm, pool, needs_cpu_seq_lens=False)
        event = SimpleNamespace(record=lambda: None, wait=lambda: None)
        future_map.publish_ready = event
    else:
        future_map = kind(4, None, 64, "cpu", algorithm)
    made = bare(Scheduler)
    vars(made).update(
        forward_ct=0,
        scripted_scheduler_hook=None,
        profiler_manager=SimpleNamespace(_profile_batch_predicate=lambda _: None),
        _profile_batch_predicate=lambda _: None,
        forward_sleep_time=None,
        is_generation=True,
        enable_overlap=True,
        enable_pdmux=False,
        spec_algorithm=algorithm,
        future_map=future_map,
        forward_stream_ctx=worker.stream,
        forward_stream=worker.stream,
        schedule_stream=torch.cpu.current_stream(),
        batch_record_ct=0,
        batch_record_buf=[[], []],
        record_batch_in_overlap=lambda _: None,
        model_worker=worker,
        device_module=SimpleNamespace(Event=lambda: None),
        server_args=SimpleNamespace(enable_dp_attention=False, elastic_ep_backend=None),
        _maybe_report_active_ranks=lambda: None,
    )
    return made


@repeatable
def steps(acts: list[list[Any]], disable: str = "", *, fork: bool = False) -> dict[str, Any]:
    """Do the acts with one batch, on the tree's own future map or on a fork's.

    They are ``step``, ``filter`` to rows, ``merge`` with a prefill of more, ``arrive`` of as many that another server
    prefilled, and ``prefill`` apart. Returns what each step found, and the operators that moved rows in each.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    worker = _Worker(_ForwardStream())
    scheduler = _scheduler(worker, _Fork if fork else overlap_utils.FutureMap)
    free = list(range(1, _SLOTS))

    def prefill(count: int) -> _Batch:
        batch = _Batch([free.pop(0) for _ in range(count)], None, prefill=True)
        scheduler.run_batch(batch)
        batch.prefill = False
        return batch

    batch, moved = prefill(3), []
    for name, argument in acts:
        if name == "filter":
            kept = torch.tensor(argument)
            free += [row for at, row in enumerate(batch.rows) if at not in argument]
            batch.rows = [batch.rows[at] for at in argument]
            batch.req_pool_indices, batch.seq_lens = batch.req_pool_indices[kept], batch.seq_lens[kept]
            batch.spec_info.filter_batch(kept)
        elif name in {"merge", "arrive"}:
            if name == "merge":
                other = prefill(argument)
            else:
                other = _arrived([free.pop(0) for _ in range(argument)], scheduler.future_map)
            batch.rows += other.rows
            batch.req_pool_indices = torch.cat([batch.req_pool_indices, other.req_pool_indices])
            batch.seq_lens = torch.cat([batch.seq_lens, other.seq_lens])
            batch.spec_info.merge_batch(other.spec_info)
        elif name == "prefill":
            free += prefill(argument).rows
        else:
            operators = _Operators()
            with operators:
                scheduler.run_batch(batch)
            moved.append([name for name in operators.seen if name in _MOVED])
    return {"found": worker.found, "moved": moved}


def captured_lens(algorithm: str, count: int) -> list[list[int]]:
    """Return the lengths that each step still has when its verify is over, which writes the next ones to one buffer."""
    torch.cpu.current_stream = lambda *_: SimpleNamespace(wait_event=lambda _: None)  # type: ignore[assignment]
    pool = SimpleNamespace(req_to_token=torch.zeros((_SLOTS, 1)))
    future_map = overlap_utils.FutureMap(
        "cpu", SpeculativeAlgorithm.from_string(algorithm), pool, needs_cpu_seq_lens=False
    )
    future_map.publish_ready = SimpleNamespace(record=lambda: None, wait=lambda: None)
    rows, buffer = torch.tensor([2, 5]), torch.zeros(_SLOTS, dtype=torch.int64)
    batch: Any = SimpleNamespace(spec_info=SimpleNamespace(future_indices=rows), seq_lens=None)
    future_map.publish(rows, torch.tensor([10, 20]))
    found = []
    for _ in range(count):
        future_map.resolve_seq_lens_cpu(batch)
        buffer[: len(rows)] = batch.seq_lens + 3
        future_map.publish(rows, buffer[: len(rows)])
        found.append(batch.seq_lens.tolist())
    return found
