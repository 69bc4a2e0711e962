"""Which hidden states the tree keeps for each request of a batch, and which of them it returns."""

from __future__ import annotations

from array import array
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.managers.schedule_batch import FINISH_LENGTH, Req
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

_PLACES = {
    "sglang.srt.managers.scheduler_output_processor_mixin": "SchedulerOutputProcessorMixin",
    "sglang.srt.managers.scheduler_components.batch_result_processor": "SchedulerBatchResultProcessor",
}
_STREAMS = {
    "sglang.srt.managers.scheduler_output_processor_mixin": "SchedulerOutputProcessorMixin.stream_output_generation",
    "sglang.srt.managers.scheduler_components.output_streamer": "SchedulerOutputStreamer._stream_output_generation",
}


def _there(places: dict[str, str]) -> Any:
    """Return what the first of the modules that the tree has calls by its name here."""
    place, name = next((place, name) for place, name in places.items() if find_spec(place))
    return attrgetter(name)(import_module(place))


_PROCESSOR = _there(_PLACES)


def _processor(stride: int) -> Any:
    made = MagicMock()
    made.draft_worker.speculative_num_draft_tokens = stride
    made.enable_overlap = True
    made.enable_metrics = made.current_scheduler_metrics_enabled = False
    resolves = ("overlap_token_ids", "overlap_tokens", "v2_tokens")
    for name in (*(f"_resolve_spec_{each}" for each in resolves), "_normalize_decode_outputs"):
        if hasattr(_PROCESSOR, name):
            setattr(made, name, getattr(_PROCESSOR, name).__get__(made))
    return made


def _request() -> Any:
    made = MagicMock()
    made.finished.return_value = made.is_retracted = made.return_logprob = False
    made.grammar, made.kv_committed_len, made.spec_verify_ct = None, 0, 0
    made.output_ids, made.hidden_states, made.return_hidden_states = [7], [["prefill"]], True
    return made


def kept(accepted: list[int] | None, stride: int) -> list[list[Any]]:
    """Process a verify of which each request accepted so many tokens, or a plain decode; return each request's states.

    The state of row r is [r].
    """
    speculates = accepted is not None
    requests = [_request() for _ in (accepted if accepted is not None else range(stride))]
    rows = len(requests) * (stride if speculates else 1)
    result = SimpleNamespace(
        copy_done=None,
        routed_experts_output=None,
        indexer_topk_output=None,
        logits_output=SimpleNamespace(
            hidden_states=torch.arange(rows).view(rows, 1), next_token_logprobs=None
        ),
        next_token_ids=torch.arange(rows),
        accept_lens=torch.tensor(accepted) if speculates else None,
        can_run_cuda_graph=False,
        speculative_num_draft_tokens=stride if speculates else None,
        num_accepted_drafts=0,
        num_correct_drafts=0,
        num_correct_drafts_per_req_cpu=None,
        customized_info=None,
    )
    batch = SimpleNamespace(
        reqs=requests,
        batch_size=lambda: len(requests),
        spec_algorithm=SpeculativeAlgorithm.EAGLE if speculates else SpeculativeAlgorithm.NONE,
        is_spec_v2=speculates,
        return_logprob=False,
    )
    _PROCESSOR.process_batch_result_decode(_processor(stride), batch, result)
    return [request.hidden_states for request in requests]


def returned(states: list[Any], *, ends_after: int) -> list[Any]:
    """Return the states that the user gets of a request that ended ``ends_after`` tokens; each token has a state."""
    params = SamplingParams(max_new_tokens=1000, stop=[])
    params.normalize(None)
    request = Req(
        "", "", array("q", [0]), params, eos_token_ids=set(), vocab_size=9, return_hidden_states=True
    )
    request.output_ids = array("q", range(len(states)))
    request.hidden_states = states
    request.finished_reason, request.finished_len = FINISH_LENGTH(ends_after), ends_after
    scheduler = MagicMock()
    _there(_STREAMS)(scheduler, [request], False)
    (sent,) = [
        value
        for call in scheduler.mock_calls
        for value in call.args
        if hasattr(type(value), "__dataclass_fields__") and hasattr(value, "output_hidden_states")
    ]
    (found,) = sent.output_hidden_states
    return list(found)
