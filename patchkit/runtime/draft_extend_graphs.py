"""Decide for each worker whether its v2 draft-extend is captured in a graph."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import flash_attention, flashinfer, sparse_attention
from .switches import disabled

if TYPE_CHECKING:
    from .shapes import DraftWorker

# The values that sglang's own switches read as true.
_TRUE = {"true", "1", "yes", "y"}


# Upstream lists it too since 0.5.13, with the same fault.
_LISTED_BY_PATCH = "TRTLLMHAAttnBackend"


def graphs_draft_extend(
    worker: DraftWorker, listed: object, *, on_cuda: bool, flashinfer_tokens: int | None = None
) -> bool:
    """Return whether a v2 worker captures its draft-extend in a graph.

    ``listed`` is whether the tree's own list of backends has the worker's. On CUDA there are also graphs for plain
    FlashAttention-3, for DeepSeek Sparse Attention if its replay has a fixed shape and, if ``flashinfer_tokens``,
    the tokens per request that the tree's runner captures, are the worker's, for plain FlashInfer. Those have none for
    a draft over a part of the vocabulary (a token map), since the runner's logits cover all of it in a tree without
    28856. Neither they nor TRTLLM MHA have one for a draft with multimodal rotary positions, which the runner does not
    copy before 0.5.21. ``SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH`` in the environment disables the graphs of all
    backends. Source: pull requests 28782, 29413 and 30944.
    """
    if os.environ.get("SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH", "").lower() in _TRUE:
        return False
    backend, draft = worker.draft_extend_attn_backend, getattr(worker, "draft_runner", None)
    if listed:
        unfilled = getattr(draft, "model_is_mrope", False)
        return not (unfilled and any(owner.__name__ == _LISTED_BY_PATCH for owner in type(backend).__mro__))
    if not on_cuda or getattr(worker.server_args, "speculative_token_map", None) is not None:
        return False
    # Later trees ask the model's configuration.
    if any(getattr(each, "model_is_mrope", False) for each in (draft, getattr(draft, "model_config", None))):
        return False
    if not disabled("pk-fa3-draft-extend-graph") and flash_attention.graphs_flash_draft_extend(backend):
        return True
    if sparse_attention.graphs_sparse_draft_extend(backend):
        return True
    # A batch of another width would not fit into the graph's buffers.
    if disabled("28782") or flashinfer_tokens != worker.speculative_num_draft_tokens:
        return False
    return flashinfer.prepare_draft_extend(backend, flashinfer_tokens)
