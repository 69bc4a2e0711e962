"""Decide for each worker whether its v2 draft-extend is captured in a graph, and bound that graph's memory."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from . import flash_attention, flashinfer, sparse_attention
from .switches import disabled

_PATCH = "pk-fa3-draft-extend-graph"
_TREES = "pk-tree-extend-graph"
_RUNNER = "EAGLEDraftExtendCudaGraphRunner"
_TABLE = "page_table"
# Whose graphs read a page table.
_MODES = (
    *("decode_cuda_graph_metadata", "target_verify_metadata", "draft_extend_metadata"),
    *("draft_decode_metadata_topk_normal", "target_verify_metadata_topk_normal"),
)
# The values that sglang's own switches read as true.
_TRUE = {"true", "1", "yes", "y"}


# Upstream lists it too since 0.5.13, with the same fault.
_LISTED_BY_PATCH = "TRTLLMHAAttnBackend"
# Of the target, whose states an EAGLE3 draft reads, if nothing says how many.
_LAYERS = 3


def graphs_draft_extend(
    worker: Any,
    listed: object,
    *,
    on_cuda: bool,
    flashinfer_tokens: int | None = None,
    branches: bool = False,
) -> bool:
    """Return whether a v2 worker captures its draft-extend in a graph.

    ``listed`` is whether the tree's own list of backends has the worker's. On CUDA there are also graphs for plain
    FlashAttention-3, for DeepSeek Sparse Attention if its replay has a fixed shape and, if ``flashinfer_tokens``,
    the tokens per request that the tree's runner captures, are the worker's, for plain FlashInfer. With ``branches``
    the runner has room for a tree's tokens, and FlashAttention-3 may have a top-k above 1. Those have none
    for a draft over a part of the vocabulary (a token map), since the runner's logits cover all of it in a tree
    without 28856. Neither those that the patches add nor TRTLLM MHA have one for a draft with multimodal rotary
    positions, which the runner does not copy before 0.5.21, nor for an EAGLE3 draft that reads other than three layers
    of the target, for which the runner has no room from 0.5.12 to 0.5.14. In the environment,
    ``SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH`` disables the graphs of all backends. Source: pull requests 28782, 29413
    and 30944.
    """
    if os.environ.get("SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH", "").lower() in _TRUE:
        return False
    backend, draft = worker.draft_extend_attn_backend, getattr(worker, "draft_runner", None)
    # Later trees ask the model's configuration.
    asked = (draft, getattr(draft, "model_config", None))
    unfilled = any(getattr(each, "model_is_mrope", False) for each in asked) or not _fits_states(
        worker, draft
    )
    if listed:
        return not (unfilled and any(owner.__name__ == _LISTED_BY_PATCH for owner in type(backend).__mro__))
    if not on_cuda or unfilled or getattr(worker.server_args, "speculative_token_map", None) is not None:
        return False
    branches = branches and not disabled(_TREES)
    if not disabled(_PATCH) and flash_attention.graphs_flash_draft_extend(backend, branches=branches):
        return True
    if sparse_attention.graphs_sparse_draft_extend(backend):
        return True
    # A batch of another width would not fit into the graph's buffers.
    if disabled("28782") or flashinfer_tokens != worker.speculative_num_draft_tokens:
        return False
    return flashinfer.prepare_draft_extend(backend, worker.speculative_num_draft_tokens)


def _fits_states(worker: Any, draft: object) -> bool:
    """Return whether the runner's hidden states are of as many of the target's layers as the draft reads.

    From 0.5.12 to 0.5.14 the runner asks the target's configuration, but only the draft's says how many these are.
    """
    package = type(worker).__module__.rpartition(".")[0]
    inputs = getattr(sys.modules.get(f"{package}.eagle_info"), "EagleDraftExtendInput", None)
    if not hasattr(inputs, "hidden_size_for") or not getattr(worker, "eagle_use_aux_hidden_state", False):
        return True
    return _layers_read(worker.target_worker.model_runner) == _layers_read(draft)


def _layers_read(runner: object) -> int:
    config = getattr(getattr(runner, "model_config", None), "hf_config", None)
    named: int | None = getattr(config, "num_aux_hidden_states", None)
    if named is None:
        options: dict[str, Any] = getattr(config, "eagle_config", None) or {}
        named = len(options.get("eagle_aux_hidden_state_layer_ids") or ())
    return named or _LAYERS


def share_draft_extend_tables(backend: Any, draft_runner: object, *, branches: bool = False) -> None:
    """Replace the page tables of a draft-extend's graphs, int32, [requests, pages], by one table.

    A plain FlashAttention-3 backend allocates a table for each mode. The backend of a draft-extend runs one mode, and
    that of the draft's first step has a table for this mode, which it never runs. Without such a step, the backend
    keeps a table of its own. With ``branches`` that of a top-k above 1, where the patches plan it, is as wide as a row
    of the pool, as an eager draft-extend's is: a tree's tokens may reach past the context's end. Source:
    pk-fa3-draft-extend-graph and pk-tree-extend-graph.
    """
    wide = branches and flash_attention.reads_tree_alone(backend)
    if disabled(_PATCH) or not flash_attention.is_plain(backend, branches=wide):
        return
    table = backend.draft_extend_metadata[_TABLE]
    shape = table.shape
    steps = getattr(getattr(draft_runner, "draft_attn_backend", None), "attn_backends", ())
    if wide:
        pages = -(-backend.req_to_token.shape[1] // backend.page_size)
        table = table.new_zeros(shape[0], max(shape[1], pages))
    elif steps and flash_attention.is_plain(steps[0]):
        unused: object = getattr(steps[0], "draft_extend_metadata", {}).get(_TABLE)
        if isinstance(unused, torch.Tensor) and unused.shape == shape:
            table = unused
    for mode in _MODES:
        buffers = getattr(backend, mode, {})
        # Beside them, by number, is what was captured.
        for name in [each for each in buffers if isinstance(each, str) and each.startswith(_TABLE)]:
            if buffers[name].shape == shape:
                buffers[name] = table


def draft_extend_logits(runner: Any, rows: int, vocabulary: int) -> torch.Tensor:
    """Return the logits buffer of a draft-extend's graphs, float32, [rows, vocabulary], on the default device.

    In spec v2 it is a part of the target graphs' own if that has room: a step has read the target's logits when its
    draft-extend starts, and those of the draft-extend when the next verify starts. Upstream shares a buffer of the
    same size from 0.5.13 on. Source: pk-fa3-draft-extend-graph.
    """
    if type(runner).__name__ == _RUNNER and runner.forward_mode.is_draft_extend_v2() and not disabled(_PATCH):
        target = runner.eagle_worker.target_worker.model_runner
        # Its name until 0.5.13, and from then on.
        graphs = getattr(target, "graph_runner", None) or getattr(target, "decode_cuda_graph_runner", None)
        logits: object = getattr(getattr(graphs, "buffers", None), "next_token_logits_buffer", None)
        if isinstance(logits, torch.Tensor) and logits.shape[0] >= rows and logits.shape[1:] == (vocabulary,):
            return logits[:rows]
    return torch.zeros((rows, vocabulary), dtype=torch.float32)
