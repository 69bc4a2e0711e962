"""What a verify that crosses the tracking interval leaves in the tree's own pool of states, kernels interpreted."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from sglang.srt import server_args
from sglang.srt.layers.attention.hybrid_linear_attn_backend import HybridLinearAttnBackend
from sglang.srt.managers import schedule_batch
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.session.streaming_session import StreamingSession
from sglang.srt.speculative import spec_utils
from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2

from .recorders import PretendedCuda

_INTERVAL, _TOKENS, _SLOTS = 8, 3, 12
_ASCEND = "sglang.srt.hardware_backend.npu.attention.ascend_hybrid_linear_attn_backend"


def _pool() -> Any:
    """Return the tree's own pool of one layer."""
    shape = SimpleNamespace(conv=[(3, 2)], temporal=(1, 2, 2))
    dtype = SimpleNamespace(conv=torch.float32, temporal=torch.float32)
    pool: Any = HybridReqToTokenPool(
        size=4,
        mamba_size=_SLOTS,
        mamba_spec_state_size=4,
        max_context_len=64,
        device="cpu",
        enable_memory_saver=False,
        cache_params=SimpleNamespace(shape=shape, dtype=dtype),
        mamba_layer_ids=[0],
        enable_mamba_extra_buffer=True,
    )
    return pool


def _number(states: Any) -> None:
    """Let every slot's state be the slot's number, and what a verify leaves none of them."""
    numbers = torch.arange(_SLOTS + 1, dtype=torch.float32)
    states.mamba_cache = states.SpeculativeState(
        conv=[numbers.reshape(1, -1, 1, 1).repeat(1, 1, 3, 2)],
        temporal=numbers.reshape(1, -1, 1, 1, 1).repeat(1, 1, 1, 2, 2),
        intermediate_ssm=torch.full((1, 5, _TOKENS, 1, 2, 2), -9.0),
        intermediate_conv_window=[torch.full((1, 5, _TOKENS, 3, 2), -9.0)],
    )


def _request() -> Any:
    return SimpleNamespace(
        rid="",
        req_pool_idx=None,
        mamba_pool_idx=None,
        mamba_ping_pong_track_buffer=None,
        mamba_next_track_idx=None,
        is_chunked=0,
        inflight_middle_chunks=0,
        kv_committed_len=0,
    )


def _tracked(pool: Any, requests: list[Any]) -> torch.Tensor:
    """Return the slots that the tree looks up for a verify of these requests."""
    rows = torch.tensor([request.req_pool_idx for request in requests])
    look_up = getattr(schedule_batch, "set_mamba_track_indices_from_reqs", None)
    if look_up is not None:
        batch = SimpleNamespace(reqs=requests, req_to_token_pool=pool, req_pool_indices=rows)
        with PretendedCuda():
            look_up(batch)
        looked_up: Any = batch.mamba_track_indices
        found: torch.Tensor = looked_up.as_subclass(torch.Tensor)
        return found
    # What makes a verify's input is elsewhere in trees that have the function.
    forward_batches = importlib.import_module(".forward_batches", __package__)
    case = {"lens": [7] * len(requests), "mode": "DECODE", "mirror": True, "sum": True}
    case["slots"] = [request.mamba_next_track_idx for request in requests]
    case["mapping"] = pool.req_index_to_mamba_ping_pong_track_buffer_mapping[rows].tolist()
    tracked = forward_batches.prepare_verify(case, _TOKENS, graph=True)["tracked"]
    return torch.tensor(tracked)


class _AscendKernels:
    """What the kernels for Ascend do to the states: nothing for a request without a step."""

    @staticmethod
    def move(states: Any, steps_of: Any, to: Any, source: Any, steps: Any) -> None:
        for slot, row, step in zip(to.tolist(), source.tolist(), steps.tolist(), strict=True):
            if step >= 0:
                states[:, slot] = steps_of[:, row, step]

    @staticmethod
    def roll_back(states: Any, slots: Any, steps: Any, tokens: int) -> None:
        for slot, step in zip(slots.tolist(), steps.tolist(), strict=True):
            if step >= 0 and (shift := tokens - 1 - step):
                states[:, slot, shift:] = states[:, slot, :-shift].clone()


def _backend(kind: str, pool: Any, rows: torch.Tensor) -> Any:
    if kind == "ascend":
        module: ModuleType = importlib.import_module(_ASCEND)
        vars(module).update(
            move_intermediate_cache=_AscendKernels.move, conv_state_rollback=_AscendKernels.roll_back
        )
        made = object.__new__(module.AscendHybridLinearAttnBackend)
    else:
        # The kernels ask for tensors of a GPU before they are launched.
        torch.Tensor.is_cuda = property(lambda _: True)  # type: ignore[assignment]
        made = object.__new__(HybridLinearAttnBackend)
    made.linear_attn_backend = SimpleNamespace(
        forward_metadata=SimpleNamespace(mamba_cache_indices=pool.get_mamba_indices(rows)),
        req_to_token_pool=pool,
    )
    return made


def crossing_verify(kind: str = "cuda", *, freed: bool) -> dict[str, Any]:
    """Verify two requests that cross the interval; of the first, ``freed``, the radix tree has taken a slot over.

    ``kind`` is the backend's. Returns which slots the tree looked up, and the slots whose state it wrote, but for
    those in which the requests work.
    """
    server = SimpleNamespace(enable_mamba_extra_buffer=lambda: True, mamba_track_interval=_INTERVAL)
    server_args.set_global_server_args_for_scheduler(server)
    pool = _pool()
    requests = [_request(), _request()]
    rows = torch.tensor(pool.alloc(requests))
    working = {request.mamba_pool_idx.item() for request in requests}
    slots = {
        name: each.mamba_ping_pong_track_buffer[0].item()
        for name, each in zip(("first", "second"), requests, strict=True)
    }
    if freed:
        pool.free_mamba_cache(requests[0], mamba_ping_pong_track_buffer_to_keep=0)
        # The pool of earlier trees leaves that to who takes a request out of the batch.
        requests[0].mamba_ping_pong_track_buffer = requests[0].mamba_next_track_idx = None
    tracked = _tracked(pool, requests)
    _number(pool.mamba_pool)
    backend = _backend(kind, pool, rows)
    target = SimpleNamespace(
        model_runner=SimpleNamespace(attn_backend=backend, mambaish_config=object(), model=None)
    )
    batch = SimpleNamespace(
        forward_mode=ForwardMode.TARGET_VERIFY,
        mamba_track_indices=tracked,
        seq_lens=torch.full((2,), _INTERVAL - 1),
    )
    accept_lens = torch.full((2,), _TOKENS, dtype=torch.int32)
    accept_index = torch.arange(2 * _TOKENS, dtype=torch.int32).reshape(2, _TOKENS)
    commit = getattr(spec_utils, "commit_mamba_states_after_verify", None)
    if commit is not None:
        commit(target, batch, accept_lens, accept_index, _TOKENS)
    else:
        worker: Any = object.__new__(EAGLEWorkerV2)
        vars(worker).update(server_args=server, _target_worker=target, speculative_num_draft_tokens=_TOKENS)
        update = worker._mamba_verify_update
        spec = (SimpleNamespace(topk=1),) if "verify_input" in inspect.signature(update).parameters else ()
        update(batch, *spec, accept_lens, accept_index, 2)
    cache = pool.mamba_pool.mamba_cache
    wrote = {
        name: [
            slot
            for slot in range(1, _SLOTS + 1)
            if slot not in working and not bool((states[0, slot] == slot).all())
        ]
        for name, states in (("temporal", cache.temporal), ("conv", cache.conv[0]))
    }
    return slots | {"tracked": tracked.tolist(), "wrote": wrote}


def free_after_turns(count: int) -> list[int]:
    """Have a request take slots and give them back, ``count`` times; return the pool's free slots."""
    pool = _pool()
    request = _request()
    for _ in range(count):
        pool.alloc([request])
        pool.free_mamba_cache(request)
        pool.free(request)
    free: list[int] = pool.mamba_pool.free_slots.tolist()
    return free


def slots_of_a_session(*, aborted: bool) -> int:
    """Abort a streaming session's first request while it runs, or finish it; return how many slots are not free."""
    pool = _pool()
    before = pool.mamba_pool.available_size()
    request = _request()
    pool.alloc([request])
    vars(request).update(
        session=SimpleNamespace(
            session_id="", streaming=True, abort_req=lambda: None, finish_req=lambda _: None
        ),
        finished_reason=schedule_batch.FINISH_ABORT("") if aborted else schedule_batch.FINISH_LENGTH(1),
        finished_len=1,
        origin_input_ids=[5, 5],
        output_ids=[5],
        swa_evicted_seqlen=0,
        mamba_last_track_seqlen=None,
        mamba_branching_seqlen=None,
        kv_allocated_len=3,
        last_node=None,
        cache_protected_len=0,
        swa_uuid_for_lock=None,
        kv_committed_freed=True,
        kv_overallocated_freed=True,
    )
    slots = SimpleNamespace(free=lambda _: None)
    cache = SimpleNamespace(req_to_token_pool=pool, token_to_kv_pool_allocator=slots, page_size=1)
    session: Any = StreamingSession(cache)
    session.cache_finished_req(request)
    return int(before - pool.mamba_pool.available_size())
