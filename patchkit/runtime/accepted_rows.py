"""Of a draft-extend's rows one a request is read, that of its last accepted token: the LM head runs on these alone."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, TypeVar

import torch

from .switches import disabled

if TYPE_CHECKING:
    from .shapes import DraftExtendBatch, DraftExtendRunner, LogitsMetadata, ServerRunner

_Output = TypeVar("_Output")

_ROWS = "patchkit_accepted_rows"


def _selects(runner: ServerRunner, batch: DraftExtendBatch) -> bool:
    """Tell whether a v2 draft-extend of ``batch`` computes logits of the accepted rows alone.

    With DP attention all ranks agree on how many rows the LM head has, and the halves of two overlapping batches split
    what goes with a token: both compute all.
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
    """Have the draft-extend of ``batch`` compute logits of ``rows``, int64, shape [batch], on the device.

    Source: pull request 35546.
    """
    if _selects(runner, batch):
        batch.spec_info.select_index = rows


def _index(batch: DraftExtendBatch) -> torch.Tensor | None:
    """Return the rows that a draft-extend was asked for, None for all rows and of any other batch."""
    if not batch.forward_mode.is_draft_extend_v2():
        return None
    index: torch.Tensor | None = getattr(batch.spec_info, "select_index", None)
    return index


def name_accepted_rows(metadata: LogitsMetadata, batch: DraftExtendBatch) -> None:
    """Have the logits processor, which works by ``metadata`` of ``batch``, select the rows that it was asked for.

    Source: pull request 35546.
    """
    metadata.draft_extend_select_index = _index(batch)


def accepted_states(states: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
    """Return the rows ``index`` of ``states``, shape [tokens, hidden], or all of them. Source: pull request 35546."""
    return states if index is None else states[index]


def narrow_draft_extend(runner: DraftExtendRunner, batch: DraftExtendBatch) -> None:
    """Have the graph that is about to be captured of ``batch`` compute one row a request.

    The rows are in a buffer of the runner's own: row i of it is one of request i's, so that what an earlier batch left
    there for a request that pads this one is a row that the graph has. Source: pull request 35546.
    """
    if not _selects(runner.model_runner, batch):
        return
    buffer: torch.Tensor | None = getattr(runner, _ROWS, None)
    if buffer is None:
        buffer = torch.zeros(max(runner.capture_bs), dtype=torch.int64, device=batch.seq_lens.device)
        setattr(runner, _ROWS, buffer)
    batch.spec_info.select_index = buffer[: batch.batch_size]
    if batch.next_token_logits_buffer is not None:
        batch.next_token_logits_buffer = batch.next_token_logits_buffer[: batch.batch_size]


def load_accepted_rows(runner: DraftExtendRunner, batch: DraftExtendBatch) -> None:
    """Hand a replay the rows that ``batch`` reads; RuntimeError if it names none and the graph computes no others.

    Source: pull request 35546.
    """
    buffer: torch.Tensor | None = getattr(runner, _ROWS, None)
    if buffer is None:
        return
    rows = _index(batch)
    if rows is None:
        raise RuntimeError(
            "A draft-extend names no rows, and its CUDA graph computes those that a batch names and no others: "
            "start the server with PATCHKIT_DISABLE=35546."
        )
    buffer[: rows.shape[0]].copy_(rows)


def rows_of_batch(output: _Output, runner: DraftExtendRunner) -> _Output:
    """Return what a replay left, without the rows of requests that pad it where there is one a request.

    Source: pull request 35546.
    """
    left = copy.copy(output)
    for name in ("next_token_logits", "hidden_states"):
        rows: torch.Tensor | None = getattr(output, name)
        if rows is not None and rows.shape[0] == runner.bs:
            setattr(left, name, rows[: runner.raw_bs])
    return left


def accepted_logits(logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the ``rows``, shape [batch], of ``logits``, of all rows of each request or of these alone.

    Source: pull request 35546.
    """
    # As many as these are these: a request of a single row has no other.
    return logits if logits.shape[0] == rows.shape[0] else logits[rows]


def own_accepted_states(states: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the ``rows``, shape [batch], of ``states`` as a tensor of its own, which outlives a graph's next replay.

    Source: pull request 35546.
    """
    return states.clone() if states.shape[0] == rows.shape[0] else states[rows]
