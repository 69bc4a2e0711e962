"""A decode step's lengths on their way to the forward: on the device, in the mirror, as a sum; and the future map."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import server_args as server_settings
from sglang.srt.managers import overlap_utils
from sglang.srt.managers.overlap_utils import FutureMap
from sglang.srt.speculative import eagle_info_v2, spec_utils
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import repeatable
from .batches import keep_mirror, make_batch, state
from .recorders import DeviceTensor, Events, PretendedCuda, on_device, plain

POOL_ROWS = 64


def set_server(**settings: Any) -> SimpleNamespace:
    """Set the settings that code asks for globally."""
    defaults = {
        "speculative_algorithm": "EAGLE",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "max_speculative_num_draft_tokens": 4,
        "page_size": 1,
    }
    made = SimpleNamespace(**defaults | settings)
    server_settings.set_global_server_args_for_scheduler(made)
    return made


def _record_allocations(calls: list[Any]) -> None:
    """Have the functions that a step allocates with write down what they are given."""

    def record(name: str, result: Any) -> Any:
        def called(*arguments: Any) -> Any:
            calls.append(
                [
                    name,
                    *(plain(argument) for argument in arguments if not isinstance(argument, SimpleNamespace)),
                ]
            )
            return result

        return called

    for name in ("alloc_token_slots", "alloc_paged_token_slots_extend", "get_last_loc"):
        setattr(eagle_info_v2, name, record(name, on_device([0])))
    spec_utils.assign_req_to_token_pool_func = record("assign", None)


def _request(request: Any, allocated: int, committed: int) -> None:
    request.kv_allocated_len, request.kv_committed_len = allocated, committed
    request.decode_batch_idx = 0


def decode_batch(needed: bool, case: dict[str, Any], device: str) -> tuple[Any, Events, list[Any]]:
    """Return the batch that ``case`` describes, its events, and a list that gets each allocation."""
    set_server(page_size=case["page_size"], speculative_num_steps=case["steps"])
    keep_mirror(needed)
    events = Events()
    batch = make_batch(events, "a", case["batch"])
    batch.device = device
    batch.tree_cache = SimpleNamespace(supports_swa=lambda: False)
    batch.token_to_kv_pool_allocator = SimpleNamespace(page_size=case["page_size"])
    batch.req_to_token_pool = SimpleNamespace(req_to_token=on_device([[0] * 4] * POOL_ROWS, torch.int32))
    for request, kept in zip(batch.reqs, case["kept"], strict=True):
        _request(request, *kept)
    calls: list[Any] = []
    _record_allocations(calls)
    return batch, events, calls


@repeatable
def decode_step(needed: bool, case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Prepare a decode step after a verify that left new lengths; return what the forward is given.

    ``case``: the batch before, its lengths after the verify, what is allocated for each request.
    """
    batch, events, calls = decode_batch(needed, case, device)
    DeviceTensor.reads.clear()
    advanced = on_device(case["advanced"])
    with PretendedCuda() if device == "cuda" else nullcontext() as cuda:
        if hasattr(FutureMap, "resolve_seq_lens_cpu"):
            future_map = FutureMap("cpu", SpeculativeAlgorithm.EAGLE, batch.req_to_token_pool, needed)
            batch.spec_info.future_indices = batch.req_pool_indices
            if case["published"]:
                future_map.publish(batch.req_pool_indices, advanced)
            else:
                # A first decode step finds what a prefill left.
                future_map.new_seq_lens_buf[batch.req_pool_indices] = advanced
            batch.spec_info.prepare_for_decode(batch)
            future_map.resolve_seq_lens_cpu(batch)
        else:
            batch.seq_lens = advanced
            batch.spec_info.prepare_for_decode(batch)
    found = state(batch)
    return {
        "lens": found["lens"],
        "mirror": found["mirror"],
        "sum": found["sum"],
        "requests": [
            [request.kv_allocated_len, request.kv_committed_len, request.decode_batch_idx]
            for request in batch.reqs
        ],
        "calls": calls,
        "waits": list(events.record),
        "reads": list(DeviceTensor.reads),
        "copies": getattr(cuda, "copies", []),
    }


def new_map(keywords: dict[str, Any], *, algorithm: str | None) -> dict[str, Any]:
    """Return what a new future map holds: fields as they are, buffers by their shape and type."""
    known = SpeculativeAlgorithm.from_string(algorithm)
    places = {
        "max_running_requests": 4,
        "chunked_prefill_size": 16,
        "context_len": 40,
        "device": "cpu",
        "spec_algo": known,
        "req_to_token_pool": SimpleNamespace(req_to_token=torch.zeros(4, 8)),
    }
    accepted = inspect.signature(FutureMap.__init__).parameters
    made = FutureMap(**{name: value for name, value in places.items() if name in accepted}, **keywords)
    return {
        name: f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else str(value)
        for name, value in vars(made).items()
    }


def mirror_buffers(needed: bool) -> dict[str, bool]:
    """Return what a map on a device with its own memory has for the mirror."""
    overlap_utils._is_cuda = True
    setattr(torch, "get_device_module", lambda _: SimpleNamespace(Stream=SimpleNamespace))  # noqa: B010
    with PretendedCuda():
        made = FutureMap(
            "cpu",
            SpeculativeAlgorithm.EAGLE,
            SimpleNamespace(req_to_token=torch.zeros(4, 8)),
            needs_cpu_seq_lens=needed,
        )
    return {
        "pinned": made.new_seq_lens_cpu_pinned is not None,
        "stream": made.fwd_prepare_d2h_stream is not None,
    }
