"""Sampling parameters and penalties of a batch, from its prefill to each decode step, and what the host waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo

from . import repeatable
from .lengths import decode_batch, set_server
from .recorders import PretendedCuda, on_device, plain

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "cuda"
PARAMETERS = ("temperatures", "top_ps", "top_ks", "min_ps", "sampling_seed")
_NEUTRAL = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 1,
    "min_p": 0.0,
    "sampling_seed": None,
    "logit_bias": None,
    "min_new_tokens": 0,
    "stop_token_ids": None,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
}


class _Waits(PretendedCuda):
    """Records what the host waits for: a copy to the device, or the number of elements that a mask selects."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name, keywords = getattr(func, "__name__", ""), kwargs or {}
        if name == "tensor" and str(keywords.get("device")).startswith(DEVICE):
            self.waits.append("copy")
        if name in ("__getitem__", "__setitem__") and getattr(args[1], "dtype", None) == torch.bool:
            self.waits.append("selection")
        before = len(self.copies)
        result = super().__torch_function__(func, types, args, kwargs)
        self.waits += ["copy" for _, at_once in self.copies[before:] if not at_once]
        return result

    def take(self) -> list[str]:
        """Return what was waited for since the last call."""
        waits, self.waits = self.waits, []
        return waits


def _batch(requests: list[dict[str, Any]]) -> Any:
    count = len(requests)
    described = {"lens": [8] * count, "mirror": False, "sum": False}
    case = {"batch": described, "kept": [[64, 8]] * count, "page_size": 1, "steps": 3}
    batch, _, _ = decode_batch(False, case, DEVICE)
    for request, sampling in zip(batch.reqs, requests, strict=True):
        request.sampling_params = SimpleNamespace(**_NEUTRAL | sampling)
        request.tokenizer = SimpleNamespace(additional_stop_token_ids=None, eos_token_id=2)
        request.custom_logit_processor = None
        request.origin_input_ids, request.output_ids = [5, 6], []
    return batch


@repeatable
def session(requests: list[dict[str, Any]], steps: list[Any], vocabulary: int) -> dict[str, Any]:
    """Make a batch and prepare decode steps; return parameters, and each step's penalties and what was waited for.

    A step is the next token of each request, or the numbers of the requests that stay, as ``{"keep": [...]}``.
    """
    deterministic = any(sampling.get("sampling_seed") is not None for sampling in requests)
    batch = _batch(requests)
    set_server(enable_deterministic_inference=deterministic, enable_custom_logit_processor=False)
    answer: dict[str, Any] = {"steps": []}
    with _Waits() as cuda:
        batch.sampling_info = SamplingBatchInfo.from_schedule_batch(batch, vocabulary)
        answer["made"] = {name: plain(getattr(batch.sampling_info, name)) for name in PARAMETERS}
        for step in steps:
            if isinstance(step, dict):
                batch.sampling_info.filter_batch(step["keep"], on_device(step["keep"]))
                batch.reqs = [batch.reqs[at] for at in step["keep"]]
                batch.seq_lens = batch.seq_lens[: len(batch.reqs)]
                continue
            cuda.take()
            batch.spec_info.prepare_for_decode(batch)
            prepared = cuda.take()
            info = batch.sampling_info.copy_for_forward()
            answer["steps"].append(
                {
                    "added": plain(info.acc_additive_penalties),
                    "scaled": plain(info.acc_scaling_penalties),
                    "waits in the preparation": prepared,
                    "waits of the sums": cuda.take(),
                }
            )
            for request, token in zip(batch.reqs, step, strict=False):
                request.output_ids.append(token)
    return answer
