"""What metrics make of a batch's lengths: forward-pass metrics, the total of a decode batch, estimated work."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import repeatable
from .recorders import DeviceTensor, on_device

_PLACES = {
    "sglang.srt.observability.scheduler_metrics_mixin": "SchedulerMetricsMixin",
    "sglang.srt.managers.scheduler_components.metrics_reporter": "SchedulerMetricsReporter",
}
REPORTER = next(getattr(import_module(place), name) for place, name in _PLACES.items() if find_spec(place))


def _request(length: int) -> Req:
    """Return a request of so many tokens, the last two of them generated."""
    request = object.__new__(Req)
    request.origin_input_ids, request.output_ids = [0] * (length - 2), [0] * 2
    request.prefix_indices = [0] * (length // 2)
    request.routing_key = request.priority = None
    return request


def _batch(case: dict[str, Any]) -> SimpleNamespace:
    """Return a batch whose mirror is a tensor, a list or None; its device lengths differ from its requests'."""
    requests = [_request(length) for length in case["lens"]]
    known = [length + 1 for length in case["lens"]]
    mirror = {"tensor": torch.tensor(known), "list": known, "none": None}[case["mirror"]]
    return SimpleNamespace(
        forward_mode=ForwardMode[case["mode"]],
        reqs=requests,
        decoding_reqs=requests[: case.get("decoding", 0)],
        prefill_stats=None,
        seq_lens=on_device(known),
        seq_lens_cpu=mirror,
        batch_size=lambda: len(requests),
        dp_cooperation_info=None,
        forward_iter=None,
    )


@repeatable
def forward_pass(case: dict[str, Any]) -> dict[str, Any]:
    """Return the forward-pass metrics of a batch."""
    DeviceTensor.reads.clear()
    built = REPORTER._build_scheduled_request_metrics(SimpleNamespace(), _batch(case))
    found = {name: getattr(built, name) for name in built.__struct_fields__}
    return found | {"reads": list(DeviceTensor.reads)}


@repeatable
def estimate(case: dict[str, Any], tokens: int) -> dict[str, Any]:
    """Return the work that a decode batch is estimated to take."""
    constants = {}
    for number, name in enumerate(
        (
            *("_linear_flops_per_token", "_attn_dot_flops_coeff", "_weight_read_bytes_per_token"),
            *("_qkv_act_bytes_per_token", "_decode_q_read_bytes_per_token", "_kv_cache_bytes_per_token"),
            "_ffn_act_bytes_per_token",
        )
    ):
        constants[name] = 10**number
    DeviceTensor.reads.clear()
    work = REPORTER._estimate_decode_perf(SimpleNamespace(**constants), _batch(case), tokens)
    return {"work": list(work), "reads": list(DeviceTensor.reads)}


@repeatable
def decode_total(case: dict[str, Any]) -> dict[str, Any]:
    """Return the total length that a decode batch's statistics report."""
    reporter = MagicMock()
    settings = {
        "stats": SimpleNamespace(),
        "num_generated_tokens": 1,
        "last_decode_stats_tic": 0.0,
        "forward_ct_decode": 0,
        "enable_mfu_metrics": False,
        "is_stats_logging_rank": False,
        "current_scheduler_metrics_enabled": True,
        "spec_algorithm": SpeculativeAlgorithm.NONE,
        "waiting_queue": [],
        "grammar_manager": [],
        "server_args": SimpleNamespace(decode_log_interval=1, language_only=False),
        "enable_priority_scheduling": False,
    }
    for holder in (reporter, reporter.scheduler):
        for name, value in settings.items():
            setattr(holder, name, value)
        holder.get_pool_stats.return_value.get_decode_usage_msg_parts.return_value = []
        holder.pool_stats_observer.get_pool_stats.return_value.get_decode_usage_msg_parts.return_value = []
    DeviceTensor.reads.clear()
    REPORTER.report_decode_stats(reporter, can_run_cuda_graph=False, running_batch=_batch(case))
    total = reporter.stats.decode_sum_seq_lens
    return {"total": total, "type": type(total).__name__, "reads": list(DeviceTensor.reads)}
