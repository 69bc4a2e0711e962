"""Batches that are filtered and merged, and that wait for the verify that computes their lengths."""

from __future__ import annotations

import inspect
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.managers import overlap_utils
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.speculative.eagle_info import EagleDraftInput
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import repeatable
from .recorders import DeviceTensor, Events, on_device, plain

FIELDS = {field.name for field in fields(ScheduleBatch)}
INPUT_FIELDS = {field.name for field in fields(EagleDraftInput)}


def keep_mirror(needed: bool) -> None:
    """Set the flag that a scheduler sets on batches after its decision, if the tree has it."""
    if hasattr(ScheduleBatch, "needs_cpu_seq_lens"):
        ScheduleBatch.needs_cpu_seq_lens = needed


class Request(SimpleNamespace):
    """The part of a request that a batch reads; each equals only itself."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__

    def finished(self) -> bool:
        """Return whether the batch may drop it."""
        return bool(self.done)


def draft_input(rows: list[int], *, states: bool = False) -> EagleDraftInput:
    """Return what the requests of these rows draft from, with or without hidden states."""
    values = {
        "topk_p": on_device([[0.5]] * len(rows), torch.float32),
        "topk_index": on_device([[row] for row in rows]),
        # Its name in 0.5.11, and since.
        "verified_id": on_device(rows),
        "bonus_tokens": on_device(rows),
        "hidden_states": on_device([[row] for row in rows]) if states else None,
    }
    return EagleDraftInput(**{name: value for name, value in values.items() if name in INPUT_FIELDS})


def make_batch(events: Events, name: str, described: dict[str, Any]) -> ScheduleBatch:
    """Return a decode batch of requests with the lengths, mirror, sum and verify event that are described."""
    lens = described["lens"]
    count = len(lens)
    done = described.get("done", [False] * count)
    requests = [
        Request(rid=f"{name}{at}", done=done[at], return_logprob=False, stream=False, grammar=None)
        for at in range(count)
    ]
    rows = [described.get("first_row", 0) + at for at in range(count)]
    spec_info = draft_input(rows)
    if described.get("futures"):
        indices = on_device(rows)
        future = getattr(overlap_utils, "FutureIndices", None)
        spec_info.future_indices = future(indices=indices) if future else indices
    if described.get("event") and "verify_done" in INPUT_FIELDS:
        spec_info.verify_done = events.event(name)
    overlap = described.get("overlap", True)
    values = {
        "reqs": requests,
        "model_config": SimpleNamespace(is_encoder_decoder=False),
        "sampling_info": SimpleNamespace(
            filter_batch=lambda *_: None,
            merge_batch=lambda _: None,
            penalizer_orchestrator=SimpleNamespace(is_required=False),
        ),
        "enable_overlap": overlap,
        "device": "cpu",
        "req_pool_indices": on_device(rows),
        "req_pool_indices_cpu": torch.tensor(rows),
        "seq_lens": on_device(lens),
        "seq_lens_cpu": torch.tensor(lens) if described["mirror"] else None,
        "seq_lens_sum": sum(lens) if described["sum"] else None,
        "orig_seq_lens": on_device(lens, torch.int32),
        "spec_algorithm": SpeculativeAlgorithm.EAGLE if overlap else SpeculativeAlgorithm.NONE,
        "spec_info": spec_info if overlap else None,
    }
    return ScheduleBatch(**{name: value for name, value in values.items() if name in FIELDS})


def state(batch: ScheduleBatch) -> dict[str, Any]:
    """Return a batch's requests and their lengths."""
    spec_info = batch.spec_info
    futures = spec_info.future_indices if spec_info is not None else None
    if not isinstance(futures, (torch.Tensor, type(None))):
        futures = futures.indices
    return {
        "requests": [request.rid for request in batch.reqs],
        "rows": plain(batch.req_pool_indices),
        "lens": plain(batch.seq_lens),
        "mirror": plain(batch.seq_lens_cpu),
        "sum": batch.seq_lens_sum,
        "original": plain(batch.orig_seq_lens),
        "drafts": None if spec_info is None else plain(spec_info.topk_index),
        "futures": plain(futures),
    }


@repeatable
def run_steps(needed: bool, described: dict[str, Any], steps: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Filter a batch and merge others into it; return its state after each step, with waits and reads of it.

    A step is ``("filter", indices or None)`` or ``("merge", another batch)``.
    """
    keep_mirror(needed)
    events = Events()
    batch = make_batch(events, "a", described)
    answers = []
    for number, (act, subject) in enumerate(steps):
        events.record.clear()
        DeviceTensor.reads.clear()
        if act == "filter":
            kept = None if subject is None else [at for at in subject if at < len(batch.reqs)]
            batch.filter_batch(keep_indices=kept)
        else:
            batch.merge_batch(make_batch(events, f"b{number}-", subject))
        answers.append(state(batch) | {"waits": list(events.record), "reads": list(DeviceTensor.reads)})
        if not batch.reqs:
            break
    return answers


def wait(needed: bool, described: dict[str, Any]) -> list[str]:
    """Return how a batch waits for its verify."""
    keep_mirror(needed)
    events = Events()
    make_batch(events, "a", described).maybe_wait_verify_done()
    return events.record


def merged_drafts(ours: bool, theirs: bool, kept: list[int]) -> list[Any]:
    """Merge inputs of two requests each, with hidden states or without, keep some; return tokens and states."""
    merged = draft_input([0, 1], states=ours)
    merged.merge_batch(draft_input([2, 3], states=theirs))
    named = inspect.signature(merged.filter_batch).parameters
    merged.filter_batch(torch.tensor(kept), **{name: False for name in named if name == "has_been_filtered"})
    return [plain(merged.topk_index), plain(merged.hidden_states)]
