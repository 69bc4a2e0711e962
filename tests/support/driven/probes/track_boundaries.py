"""Which state the cache gets of a request that finishes while decodes and prefills of others overlap."""

from __future__ import annotations

from array import array
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.managers import schedule_batch
from sglang.srt.managers.schedule_batch import FINISH_LENGTH, Req, ScheduleBatch
from sglang.srt.managers.scheduler_components import batch_result_processor
from sglang.srt.managers.scheduler_components.batch_result_processor import (
    SchedulerBatchResultProcessor as _Processor,
)
from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import tracked_states
from .decisions import bare
from .recorders import PretendedCuda

_INTERVAL = 2


def _settings(lazy: bool, room: bool) -> dict[str, Any]:
    """Return what the modules read settings by, under each name that a release has for it."""
    server = SimpleNamespace(
        enable_mamba_extra_buffer=lambda: True,
        enable_mamba_extra_buffer_lazy=lambda: lazy,
        mamba_track_interval=_INTERVAL,
        disaggregation_decode_enable_offload_kvcache=False,
        enable_hisparse=False,
    )
    return {
        "get_global_server_args": lambda: server,
        "get_server_args": lambda: server,
        "get_disagg": lambda: server,
        "get_memory": lambda: server,
        "get_exec": lambda: SimpleNamespace(mamba=server),
        "mamba_extra_buffer_enabled": lambda: True,
        "mamba_extra_buffer_lazy_enabled": lambda: lazy,
        "alloc_for_decode": lambda *_, **__: None,
        "envs": SimpleNamespace(SGLANG_TEST_MAMBA_LAZY_ALLOC_FAIL=SimpleNamespace(get=lambda: not room)),
    }


def _request(prompt: int, pool: Any) -> Any:
    made: Any = Req("", "", array("q", [5] * prompt), SamplingParams(max_new_tokens=99))
    made.output_ids.append(5)
    made.kv_committed_len = prompt
    made.time_stats = MagicMock()
    pool.alloc([made])
    return made


def _batch(request: Any, pool: Any) -> Any:
    made: Any = object.__new__(ScheduleBatch)
    lens = torch.tensor([request.kv_committed_len])
    vars(made).update(
        reqs=[request],
        req_to_token_pool=pool,
        req_pool_indices=torch.tensor([request.req_pool_idx]),
        tree_cache=MagicMock(),
        model_config=SimpleNamespace(is_encoder_decoder=False),
        sampling_info=SimpleNamespace(penalizer_orchestrator=SimpleNamespace(is_required=False)),
        spec_algorithm=SpeculativeAlgorithm.from_string("NONE"),
        enable_overlap=True,
        device="cpu",
        seq_lens=lens,
        seq_lens_cpu=lens,
        orig_seq_lens=lens,
    )
    return made


def _processor(settings: dict[str, Any]) -> Any:
    """Return one whose fields, which are frozen, are its class's."""
    fields: dict[str, Any] = {
        name: lambda *_, **__: None for name in dir(_Processor) if name.startswith("_maybe_collect")
    }
    fields |= dict.fromkeys(("draft_worker", "model_worker", "tree_cache"))
    return bare(type("Processor", (_Processor,), fields | {"server_args": settings["get_server_args"]()}))


def finish(iterations: str, *, prompt: int, lazy: bool = False, room: bool = True) -> dict[str, Any]:
    """Run the overlap loop: each iteration launches a decode of the request, ``d``, or a prefill of another, ``p``.

    Each processes what the one before launched; with the last one the request finishes. Without ``room`` the lazy
    strategy gets no second slot. Returns how long the request was in its last launch, and what the cache is given:
    the length that its state is ``labelled`` with and the one that it is ``of``, None if it is given none, and how
    many slots are ``lost`` then.
    """
    settings = _settings(lazy, room)
    for module in (schedule_batch, batch_result_processor):
        vars(module).update({name: value for name, value in settings.items() if name in vars(module)})
    pool = tracked_states._pool()
    pool.enable_mamba_extra_buffer_lazy = lazy
    available = pool.mamba_allocator.available_size()
    request = _request(prompt, pool)
    batch, processor = _batch(request, pool), _processor(settings)
    inserted: list[bool] = []
    vars(batch_result_processor)["release_kv_cache"] = lambda *_, is_insert=True: inserted.append(is_insert)
    # Which length's state each slot holds, in the order in which the device gets to it.
    states: dict[int, int] = {}
    launched = None
    for number, kind in enumerate(iterations, 1):
        processed, launched = launched, None
        if kind == "d":
            with PretendedCuda():
                batch.prepare_for_decode()
            (length,) = batch.seq_lens_cpu.tolist()
            if batch.mamba_track_mask.tolist() == [True]:
                states[batch.mamba_track_indices.tolist()[0]] = length
            launched = batch.copy()
        if processed is not None:
            request.output_ids.append(5)
            if number == len(iterations):
                request.finished_reason = FINISH_LENGTH(1)
            processor._handle_finish_state_updated_req(request, processed, MagicMock(), 0, None)
    (is_inserted,) = inserted
    keep = pool.get_mamba_ping_pong_keep_idx(request) if is_inserted else None
    lengths = {"launched": request.kv_committed_len, "labelled": None, "of": None}
    if keep is not None:
        lengths["labelled"] = request.mamba_last_track_seqlen
        lengths["of"] = states.get(request.mamba_ping_pong_track_buffer[keep].item())
    pool.free_mamba_cache(request, mamba_ping_pong_track_buffer_to_keep=keep)
    lengths["lost"] = available - pool.mamba_allocator.available_size() - is_inserted
    return lengths


def every_end(*, lazy: bool, room: bool = True) -> list[dict[str, Any]]:
    """Return what `finish` does for every loop of at most six iterations that finishes the request."""
    return [
        finish("".join(order), prompt=prompt, lazy=lazy, room=room)
        | {"loop": "".join(order), "prompt": prompt}
        for prompt in (1, 2)
        for count in range(2, 7)
        for order in product("dp", repeat=count)
        if order[-2] == "d"
    ]
