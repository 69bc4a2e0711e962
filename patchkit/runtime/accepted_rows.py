"""Run the LM head of a draft-extend only on the row of each request's last accepted token."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from .switches import disabled

if TYPE_CHECKING:
    from .shapes import DraftExtendBatch, DraftExtendRunner, ServerRunner

_Output = TypeVar("_Output")

_ROWS = "patchkit_accepted_rows"
_RELEASED = {
    *("EagleDraftWorker", "StandaloneDraftWorker"),
    *("EAGLEDraftCudaGraphRunner", "EAGLEDraftExtendCudaGraphRunner"),
}


def is_released(runner: Any) -> bool:
    """Return whether a draft's or draft-extend's graphs are used by no other code than the patched one.

    A fork's subclass of their runner, or of the worker, may extend the draft without naming rows.
    """
    return {type(each).__name__ for each in (runner, getattr(runner, "eagle_worker", None))} <= _RELEASED


def _selects(runner: ServerRunner, batch: DraftExtendBatch) -> bool:
    """Return whether a v2 draft-extend of ``batch`` computes logits only for the accepted rows.

    Not with DP attention, where all ranks must have the same number of rows, or in the halves of two overlapping
    batches, which split all values per token.
    """
    args = runner.server_args
    return (
        batch.forward_mode.is_draft_extend_v2()
        and batch.global_num_tokens_gpu is None
        and not getattr(args, "enable_dp_attention", False)
        and not getattr(args, "enable_two_batch_overlap", False)
        and not disabled("35546")
    )


def ask_for_accepted(batch: DraftExtendBatch, rows: torch.Tensor, runner: ServerRunner) -> None:
    """Make the draft-extend of ``batch`` compute logits of ``rows``, int64, shape [batch], on the device.

    Source: pull request 35546.
    """
    if _selects(runner, batch):
        batch.spec_info.select_index = rows


def _index(batch: DraftExtendBatch) -> torch.Tensor | None:
    """Return the rows requested for a draft-extend; None for all rows, and for other batches."""
    if not batch.forward_mode.is_draft_extend_v2():
        return None
    index: torch.Tensor | None = getattr(batch.spec_info, "select_index", None)
    return index


def name_accepted_rows(metadata: Any, batch: DraftExtendBatch) -> None:
    """Pass the requested rows to the logits processor through ``metadata`` of ``batch``.

    Source: pull request 35546.
    """
    metadata.draft_extend_select_index = _index(batch)


def accepted_states(states: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
    """Return the rows ``index`` of ``states``, shape [tokens, hidden], or all of them. Source: pull request 35546."""
    return states if index is None else states[index]


def narrow_draft_extend(runner: DraftExtendRunner, batch: DraftExtendBatch) -> None:
    """Make the graph that is about to be captured of ``batch`` compute one row per request.

    The row indices are in the runner's own buffer: element i is a row of request i, so that what an earlier batch
    left for a padding request is a valid row. Source: pull request 35546.
    """
    if not _selects(runner.model_runner, batch) or not is_released(runner):
        return
    buffer: torch.Tensor | None = getattr(runner, _ROWS, None)
    if buffer is None:
        buffer = torch.zeros(max(runner.capture_bs), dtype=torch.int64, device=batch.seq_lens.device)
        setattr(runner, _ROWS, buffer)
    batch.spec_info.select_index = buffer[: batch.batch_size]
    if batch.next_token_logits_buffer is not None:
        batch.next_token_logits_buffer = batch.next_token_logits_buffer[: batch.batch_size]


def load_accepted_rows(runner: DraftExtendRunner, batch: DraftExtendBatch) -> None:
    """Copy the rows of ``batch`` to a replay's buffer. Raise RuntimeError if the graph needs rows and has none.

    Source: pull request 35546.
    """
    buffer: torch.Tensor | None = getattr(runner, _ROWS, None)
    if buffer is None:
        return
    rows = _index(batch)
    if rows is None:
        raise RuntimeError(
            "A draft-extend has no row indices, which its CUDA graph needs: "
            "start the server with PATCHKIT_DISABLE=35546."
        )
    buffer[: rows.shape[0]].copy_(rows)


def rows_of_batch(output: _Output, runner: DraftExtendRunner) -> _Output:
    """Return a replay's result without the rows of padding requests, if it has one row per request.

    Source: pull request 35546.
    """
    trimmed = copy.copy(output)
    for name in ("next_token_logits", "hidden_states"):
        rows: torch.Tensor | None = getattr(output, name)
        if rows is not None and rows.shape[0] == runner.bs:
            setattr(trimmed, name, rows[: runner.raw_bs])
    return trimmed


def accepted_logits(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the ``rows``, shape [batch], of ``logits``, which have all rows of each request or only these.

    Source: pull request 35546.
    """
    # With the same number of rows, they are the selected ones.
    return logits if logits.shape[0] == rows.shape[0] else logits[rows]


def own_accepted_states(states: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return a copy of the ``rows``, shape [batch], of ``states``, which the graph's next replay does not overwrite.

    Source: pull request 35546.
    """
    return states.clone() if states.shape[0] == rows.shape[0] else states[rows]
