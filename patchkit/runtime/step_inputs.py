"""Give the forwards of a step what the step has already computed: cache slots, positions, filled inputs of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from ..backends.step_slots import slots_ahead
from .streams import current_handle
from .switches import disabled

if TYPE_CHECKING:
    from .shapes import StepBatch, StepInput

_AHEAD, _FILLED = "patchkit_ahead", "patchkit_filled"


class _Found(NamedTuple):
    """What was looked up ahead of a batch; noted on its lengths."""

    stream: object
    rows: torch.Tensor
    tokens: int
    verified: torch.Tensor
    positions: torch.Tensor


class _Filled(NamedTuple):
    stream: object
    input_ids: torch.Tensor
    positions: torch.Tensor


def draft_slots(
    batch: StepBatch, req_to_token: torch.Tensor, topk: int, steps: int, tokens: int | None
) -> torch.Tensor | None:
    """Return the slots of a draft of one branch, int64, [requests x ``steps``], None where the caller looks them up.

    Those of the verify of ``tokens`` a request are looked up with them. ``req_to_token``: integer, [pool, slots], on
    the device. Source: pk-step-inputs.
    """
    lens, rows = batch.seq_lens, batch.req_pool_indices
    if (
        topk != 1
        or not tokens
        or lens.dtype != torch.int64
        or not lens.shape[0]
        or disabled("pk-step-inputs")
    ):
        return None
    if lens.device.type not in {"cpu", "cuda"} or not req_to_token.is_contiguous():
        return None
    ahead = slots_ahead(lens.contiguous(), rows.contiguous(), req_to_token, steps, tokens)
    note_ahead(batch, tokens, ahead.verified, ahead.positions)
    return ahead.drafted


def note_ahead(batch: StepBatch, tokens: int, verified: torch.Tensor, positions: torch.Tensor) -> None:
    """Note the slots of ``batch``'s verify of ``tokens`` a request, and its draft's positions, for later."""
    lens, rows = batch.seq_lens, batch.req_pool_indices
    setattr(lens, _AHEAD, _Found(current_handle(lens.device), rows, tokens, verified, positions))


def draft_positions(lens: torch.Tensor, topk: int) -> torch.Tensor:
    """Return the positions of a draft's first tokens, ``topk`` a request: a tensor that the draft may write to.

    Source: pk-step-inputs.
    """
    found: _Found | None = getattr(lens, _AHEAD, None)
    return lens.repeat_interleave(topk, dim=0) if found is None else found.positions


def verify_slots(batch: StepBatch, tokens: int) -> torch.Tensor | None:
    """Return the slots of a verify, int64, [requests x ``tokens``], None where the caller looks them up.

    That is where the draft did not, or did on another stream, which a plan stream may not be behind. Source:
    pk-step-inputs.
    """
    found: _Found | None = getattr(batch.seq_lens, _AHEAD, None)
    if found is None:
        return None
    delattr(batch.seq_lens, _AHEAD)
    known = found.rows is batch.req_pool_indices and found.tokens == tokens
    return found.verified if known and found.stream == current_handle(found.rows.device) else None


def mark_filled(batch: StepInput) -> None:
    """Note that a graph's inputs were filled from ``batch`` on the current stream. Source: pk-step-inputs."""
    if not disabled("pk-step-inputs"):
        filled = _Filled(current_handle(batch.input_ids.device), batch.input_ids, batch.positions)
        setattr(batch, _FILLED, filled)


def is_filled(batch: StepInput) -> bool:
    """Return whether a graph that is replayed for ``batch`` has its tokens and positions, ordered by this stream.

    Source: pk-step-inputs.
    """
    filled: _Filled | None = getattr(batch, _FILLED, None)
    if filled is None:
        return False
    tokens, positions = batch.input_ids, batch.positions
    same = filled.input_ids is tokens and filled.positions is positions
    return same and filled.stream == current_handle(tokens.device)
