"""Where a verify of accepted tokens leaves linear attention's states, kernels interpreted."""

from __future__ import annotations

import inspect
import os
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import server_args
from sglang.srt.layers.attention.hybrid_linear_attn_backend import HybridLinearAttnBackend
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative import spec_utils
from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2

from . import repeatable
from .drafts import _Operators

_LAYERS, _SLOTS = 2, 16


class _Descendant(HybridLinearAttnBackend):
    """A fork's own variant of the backend."""


def _pool(tokens: int) -> Any:
    shape = SimpleNamespace(conv=[(3, 2)], temporal=(1, 2, 2))
    dtype = SimpleNamespace(conv=torch.float32, temporal=torch.float32)
    pool: Any = HybridReqToTokenPool(
        size=6,
        mamba_size=_SLOTS,
        mamba_spec_state_size=6,
        max_context_len=64,
        device="cpu",
        enable_memory_saver=False,
        cache_params=SimpleNamespace(shape=shape, dtype=dtype),
        mamba_layer_ids=[*range(_LAYERS)],
        enable_mamba_extra_buffer=True,
    )
    rows = 7
    drafted = torch.arange(_LAYERS * rows * tokens * 4.0).view(_LAYERS, rows, tokens, 1, 2, 2)
    windows = 10_000 + torch.arange(_LAYERS * rows * tokens * 6.0).view(_LAYERS, rows, tokens, 3, 2)
    pool.mamba_pool.mamba_cache = pool.mamba_pool.SpeculativeState(
        conv=[torch.full((_LAYERS, _SLOTS + 1, 3, 2), -1.0)],
        temporal=torch.full((_LAYERS, _SLOTS + 1, 1, 2, 2), -1.0),
        intermediate_ssm=drafted,
        intermediate_conv_window=[windows],
    )
    return pool


@repeatable
def committed(case: dict[str, Any], disable: str = "") -> dict[str, Any]:
    """Commit what each request accepted of as many tokens; return every slot's state, and the operators that ran.

    ``case`` has lengths before, accepted lengths, slots and, where states are tracked, slots for these; with ``fork``
    the backend is a subclass.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    # The kernels ask for tensors of a GPU before they are launched.
    torch.Tensor.is_cuda = property(lambda _: True)  # type: ignore[assignment]
    tokens, accepted = case["tokens"], torch.tensor(case["accepted"], dtype=torch.int32)
    rows = len(accepted)
    server = SimpleNamespace(enable_mamba_extra_buffer=lambda: True, mamba_track_interval=case["interval"])
    server_args.set_global_server_args_for_scheduler(server)
    pool = _pool(tokens)
    backend: Any = object.__new__(_Descendant if case.get("fork") else HybridLinearAttnBackend)
    slots = torch.tensor([*case["slots"], -1], dtype=torch.int32)
    metadata = SimpleNamespace(mamba_cache_indices=slots)
    backend.linear_attn_backend = SimpleNamespace(forward_metadata=metadata, req_to_token_pool=pool)
    target = SimpleNamespace(
        model_runner=SimpleNamespace(attn_backend=backend, mambaish_config=object(), model=None)
    )
    tracked = case.get("tracked")
    batch = SimpleNamespace(
        forward_mode=ForwardMode.TARGET_VERIFY,
        mamba_track_indices=None if tracked is None else torch.tensor(tracked),
        seq_lens=torch.tensor(case["lens"]),
    )
    places = torch.arange(rows * tokens, dtype=torch.int32).view(rows, tokens)
    index = torch.where(torch.arange(tokens) < accepted[:, None], places, -1).to(torch.int32)
    operators = _Operators()
    with operators:
        commit = getattr(spec_utils, "commit_mamba_states_after_verify", None)
        if commit is not None:
            commit(target, batch, accepted, index, tokens)
        else:
            worker: Any = object.__new__(EAGLEWorkerV2)
            vars(worker).update(
                server_args=server, _target_worker=target, speculative_num_draft_tokens=tokens
            )
            update = worker._mamba_verify_update
            names = inspect.signature(update).parameters
            spec = (SimpleNamespace(topk=1),) if "verify_input" in names else ()
            update(batch, *spec, accepted, index, rows)
    cache = pool.mamba_pool.mamba_cache
    return {
        "states": cache.temporal.flatten(2).tolist(),
        "windows": cache.conv[0].flatten(2).tolist(),
        "operators": operators.seen,
    }
