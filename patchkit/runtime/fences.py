"""Make the scheduler's stream wait only for a forward's reads of shared buffers, not for the whole forward."""

from __future__ import annotations

from typing import Any

import torch

# Their graphs read only their own buffers, which are filled before a replay; a subclass may read more.
_READS_OWN_BUFFERS = frozenset(
    {
        *("FlashAttentionBackend", "FlashInferAttnBackend", "FlashInferMLAAttnBackend", "TritonAttnBackend"),
        *("TRTLLMHAAttnBackend", "TRTLLMMLABackend"),
    }
)

# The event of the last forward, if it recorded one; there is one scheduler per process.
_published: list[torch.cuda.Event] = []


def publish_shared_reads(runner: Any, batch: Any) -> None:
    """Record that a forward has read the scheduler's buffers, if the graph about to run is its last phase.

    That is a decode without speculation, or the draft-extend of the v2 worker. Nothing is recorded with a window's
    pool, which is read within the graph, with n-gram embeddings, whose table of tokens is read there and written after
    it, or an unknown backend; the scheduler then waits for the whole forward. Source: pull request 28363.
    """
    model = runner.model_runner
    backend = getattr(runner, "draft_extend_attn_backend", None) or model.attn_backend
    mode = batch.forward_mode
    last = mode.is_draft_extend_v2() or (mode.is_decode() and model.spec_algorithm.is_none())
    windows = hasattr(model.token_to_kv_pool, "full_to_swa_index_mapping")
    ngrams = getattr(model, "use_ngram_embedding", False)
    if not last or windows or ngrams or type(backend).__name__ not in _READS_OWN_BUFFERS:
        _published.clear()
        return
    event = torch.get_device_module(batch.seq_lens.device).Event()
    event.record()
    _published[:] = [event]


def fence_shared_reads(scheduler: Any) -> None:
    """Make the scheduler's stream wait until the last forward has read the scheduler's buffers.

    Calls upstream's wait if the tree has it. Otherwise waits if the tree enables that for its device, by default on
    CUDA. Source: pull requests 26380, 26646, 27967, 28363 and 31687.
    """
    wait = getattr(scheduler, "_apply_war_barrier", None)
    if wait is not None:
        wait()
        return
    if not getattr(scheduler, "_war_barrier_enabled", torch.version.cuda is not None):
        return
    if _published:
        scheduler.schedule_stream.wait_event(_published.pop())
    else:
        scheduler.schedule_stream.wait_stream(scheduler.forward_stream)
