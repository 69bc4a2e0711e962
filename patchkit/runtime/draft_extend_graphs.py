"""One answer per worker: is its v2 draft-extend captured in a graph?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import flash_attention, flashinfer, sparse_attention
from .switches import disabled

if TYPE_CHECKING:
    from .shapes import DraftWorker

# What sglang's own switches take for yes.
_TRUE = {"true", "1", "yes", "y"}


def graphs_draft_extend(
    worker: DraftWorker, listed: object, *, on_cuda: bool, flashinfer_tokens: int | None = None
) -> bool:
    """Tell whether a v2 worker captures its draft-extend in a graph.

    ``listed`` is what the tree's own list of backends says. On CUDA there is a graph as well for FlashAttention-3,
    for DeepSeek Sparse Attention where its replay has a fixed shape and, where ``flashinfer_tokens`` says how many
    tokens of a request the tree's runner captures, for FlashInfer, if the backend is of the plain kind whose tokens
    are known. A draft over a part of the vocabulary (a token map) has none: the runner's logits are as wide as the
    whole. The environment's ``SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH`` keeps every backend's out. Source: pull
    requests 28782, 29413 and 30944.
    """
    if os.environ.get("SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH", "").lower() in _TRUE:
        return False
    if listed:
        return True
    if not on_cuda or getattr(worker.server_args, "speculative_token_map", None) is not None:
        return False
    backend = worker.draft_extend_attn_backend
    if not disabled("pk-fa3-draft-extend-graph") and flash_attention.graphs_flash_draft_extend(backend):
        return True
    if sparse_attention.graphs_sparse_draft_extend(backend):
        return True
    # A batch of another width than the graph's would not fit into its buffers.
    if disabled("28782") or flashinfer_tokens != worker.speculative_num_draft_tokens:
        return False
    return flashinfer.prepare_draft_extend(backend, flashinfer_tokens)
