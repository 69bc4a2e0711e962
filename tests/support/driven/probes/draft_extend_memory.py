"""What the runner of a draft-extend's graphs allocates beside what the target's graphs and the draft's steps have."""

from __future__ import annotations

import os
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.attention import flashattention_backend
from sglang.srt.layers.attention.flashattention_backend import (
    FlashAttentionBackend,
    FlashAttentionMultiStepBackend,
)
from sglang.srt.model_executor import input_buffers
from sglang.srt.speculative import eagle_draft_extend_cuda_graph_runner as graphs
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from . import attention_backends as backends
from . import flash_attention

if TYPE_CHECKING:
    from collections.abc import Iterator

_FORMER_POOL = "_forward_input_buffer_pool"
_LOGITS = "next_token_logits_buffer"
# What the tree asks about a server that has none of it.
_OFF = ("require_gathered_buffer", "require_mlp_tp_gather", "require_mlp_sync", "require_attn_tp_gather")


class _Settings(SimpleNamespace):
    """Settings, of which all others are off."""

    def __getattr__(self, name: str) -> Any:
        return False


class _Groups:
    """Settings in groups."""

    def __getattr__(self, name: str) -> Any:
        return _Settings()


def _tensors(held: object) -> Iterator[torch.Tensor]:
    if isinstance(held, torch.Tensor):
        yield held
    elif isinstance(held, (dict, list, tuple)):
        for each in held.values() if isinstance(held, dict) else held:
            yield from _tensors(each)


def _memory(*held: object) -> dict[int, int]:
    """Return the bytes that tensors in objects hold, also in attributes, by address."""
    storages = [
        tensor.untyped_storage() for one in held for tensor in _tensors(getattr(one, "__dict__", one))
    ]
    return {storage.data_ptr(): storage.nbytes() for storage in storages}


def _share_logits(logits: torch.Tensor) -> Any:
    """Share the target's logits as the tree's own graphs do; return what later trees share them by."""
    pool = input_buffers.__dict__[_FORMER_POOL]
    pool.clear()
    if hasattr(input_buffers, "share_input_buffer"):
        input_buffers.share_input_buffer(_LOGITS, logits)
    else:
        pool[_LOGITS] = logits
    try:
        from sglang.srt.model_executor.graph_shared_output import GraphSharedOutput
    except ImportError:
        return None
    shared = GraphSharedOutput(device="cpu", max_rows=logits.shape[0])
    shared._logits_buffers[logits.shape[1]] = logits
    return shared


def _stand_in(server: dict[str, Any], requests: int, hidden: int) -> None:
    """Answer what the tree asks about a server, a model and a GPU."""
    speculation = _Settings(
        speculative_algorithm="EAGLE",
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=server["draft_tokens"],
        speculative_num_steps=server["steps"],
    )
    answers = {
        **dict.fromkeys(_OFF, lambda *_: False),
        **dict.fromkeys(("get_exec", "get_flags", "get_memory", "get_model", "get_schedule"), _Groups),
        "get_spec": lambda: speculation,
        "get_parallel": lambda: _Settings(attn_tp_size=1, pp_size=1),
        "deployment_attn_dp_size": lambda: 1,
        "get_batch_sizes_to_capture": lambda _: ([requests], []),
        "get_draft_input_from_target_hidden_dim": lambda _: hidden,
        "resolve_num_tokens_per_req": lambda **_: server["draft_tokens"],
        "resolve_decode_backend": lambda _: None,
        "resolve_draft_extend_seq_len_fill_value": lambda *_: 1,
        "model_capture_mode": nullcontext,
        "DeepEPCudaGraphRunnerAdapter": _Settings,
        "EagleDraftExtendInput": SimpleNamespace(
            hidden_size_for=lambda _: hidden, dtype_for=lambda _: torch.bfloat16
        ),
    }
    for module in (flashattention_backend, graphs):
        for name in answers.keys() & vars(module).keys():
            setattr(module, name, answers[name])


def _made(server: dict[str, Any], requests: int, hidden: int, vocabularies: tuple[int, int]) -> Any:
    """Make the runner for plain FlashAttention-3 but capture nothing.

    Return it, its backend, the draft's steps, and the memory that was there before and that of the target's graphs.
    """
    _stand_in(server, requests, hidden)
    logits = torch.zeros(requests * server["draft_tokens"], vocabularies[0])
    shared = _share_logits(logits)
    runner = flash_attention._runner(server)
    runner.is_draft_worker, runner.draft_attn_backend = True, None
    steps: list[Any] = []
    with backends.OnCpu():
        backend = FlashAttentionBackend(runner, speculative_num_steps=server["steps"])
        if server["steps"] > 1:
            runner.draft_attn_backend = draft = FlashAttentionMultiStepBackend(runner, 1, server["steps"])
            draft.init_cuda_graph_state(requests, requests)
            steps = draft.attn_backends
    vars(runner).update(attn_backend=backend, graph_shared_output=shared, dp_size=1)
    runner.server_args = _Settings(**vars(runner.server_args))
    vars(runner.model_config).update(
        vocab_size=vocabularies[1],
        dtype=torch.bfloat16,
        hf_config=SimpleNamespace(),
        # In the oldest trees.
        spec_hidden_size=hidden,
    )
    target: Any = SimpleNamespace(buffers=SimpleNamespace(next_token_logits_buffer=logits))
    worker = SimpleNamespace(
        draft_runner=runner,
        target_worker=SimpleNamespace(
            model_runner=SimpleNamespace(graph_runner=target, decode_cuda_graph_runner=target)
        ),
        draft_extend_attn_backend=backend,
        speculative_algorithm=SpeculativeAlgorithm.from_string("EAGLE"),
        seed_dsa_topk_from_draft_extend=False,
    )
    made = graphs.EAGLEDraftExtendCudaGraphRunner
    made.capture = lambda _: None
    before = _memory(target.buffers, backend, runner, runner.model_config, *steps)
    with backends.OnCpu():
        capture = made(worker)
    return capture, backend, steps, before | _memory(target.buffers, *steps)


def allocated(
    server: dict[str, Any], requests: int, hidden: int, vocabularies: tuple[int, int], disable: str = ""
) -> dict[str, Any]:
    """Make the runner for plain FlashAttention-3 but capture nothing, and return the bytes that are new.

    ``vocabularies`` are the target's and the draft's.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    capture, backend, steps, known = _made(server, requests, hidden, vocabularies)
    owned = {"tables": _memory(backend), "inputs": _memory(capture.buffers)}
    new = {
        name: sum(size for address, size in memory.items() if address not in known)
        for name, memory in owned.items()
    }
    table = backend.draft_extend_metadata["page_table"].data_ptr()
    return new | {"read_by_a_step": any(table in _memory(step.decode_cuda_graph_metadata) for step in steps)}


def held(
    server: dict[str, Any], requests: int, hidden: int, vocabularies: tuple[int, int]
) -> dict[str, list[Any]]:
    """Make the runner as `allocated` does; return the type and shape of each of its buffers and of its page table."""
    capture, backend, *_ = _made(server, requests, hidden, vocabularies)
    buffers = vars(capture.buffers) | {"page_table": backend.draft_extend_metadata["page_table"]}
    return {
        name: [str(value.dtype), list(value.shape)]
        for name, value in sorted(buffers.items())
        if isinstance(value, torch.Tensor)
    }
