"""Plan FlashMLA from device lengths, and its v2 draft-extend as a verify of its tokens."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch

from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Callable

    from .shapes import FlashMLA, FlashMLABatch, MultiStepDraft

_CLASS = "FlashMLABackend"
# FlashMLA has pages of one size.
_PAGE = 64
_PLANNED = "patchkit_planned_verify"

_Batch = TypeVar("_Batch", bound="FlashMLABatch")


class _Planned(NamedTuple):
    """The verify that a draft-extend was planned as: its plan, its tokens per request, the lengths before these."""

    plan: Callable[[FlashMLABatch], object]
    tokens: int
    lens: torch.Tensor


def flashmla_needs_mirror(backend: object) -> bool:
    """Return whether this FlashMLA backend reads the host's lengths.

    It does with decode context parallelism, whose ranks have parts of the lengths. A subclass counts as one that does,
    since its overrides are unknown. Source: pull request 31090.
    """
    shards = getattr(backend, "dcp_world_size", 1)
    return disabled("31090") or type(backend).__name__ != _CLASS or shards > 1


def flashmla_steps_need_mirror(draft: MultiStepDraft) -> bool:
    """Return whether one of a FlashMLA draft's steps reads the host's lengths. Source: pull request 31090."""
    return disabled("31090") or any(map(flashmla_needs_mirror, draft.attn_backends))


def flashmla_bounds(backend: FlashMLA, rows: int) -> torch.Tensor:
    """Return lengths for the host, int, shape [rows], that a graph's table of pages has room for with a draft's tokens.

    They replace a mirror of which only the longest length is read. Source: pull request 31090.
    """
    longest = backend.cuda_graph_kv_indices.shape[1] * _PAGE - (backend.num_draft_tokens or 0)
    return torch.full((rows,), longest)


def flashmla_lens(backend: FlashMLA, mirror: torch.Tensor | None) -> torch.Tensor:
    """Return lengths for the host, of which only the longest is read: the mirror, or one as long as a row of the pool.

    That is more than the context length, since a request at its limit is launched once more. Source: pull request
    31090.
    """
    return torch.tensor([backend.req_to_token.shape[1]]) if mirror is None else mirror


def plan_flashmla_draft_extend(backend: FlashMLA, batch: FlashMLABatch) -> None:
    """Plan a v2 draft-extend on the device.

    Each of its requests has as many tokens as a verify's, and their lengths, ``batch.seq_lens``, include these.
    Source: pull request 31090.
    """
    _plan(batch, backend.init_forward_metadata, backend.num_draft_tokens)


def _plan(batch: FlashMLABatch, plan: Callable[[FlashMLABatch], object], tokens: int) -> None:
    # A request that pads the batch is shorter than its tokens.
    lens = (batch.seq_lens - tokens).clamp(min=0)
    # Not on the batch: from 0.5.13 on an eager forward runs a copy of it, with its fields alone.
    setattr(batch.spec_info, _PLANNED, _Planned(plan, tokens, lens))
    plan(as_flashmla_verify(batch))


def as_flashmla_verify(batch: _Batch) -> _Batch:
    """Return the verify as which a v2 draft-extend was planned.

    With attention data parallelism requests may pad the batch since it was planned; then it is planned again. Source:
    pull request 31090.
    """
    planned: _Planned = getattr(batch.spec_info, _PLANNED)
    if planned.lens.shape != batch.seq_lens.shape:
        _plan(batch, planned.plan, planned.tokens)
    verify = copy.copy(batch)
    verify.forward_mode = type(batch.forward_mode).TARGET_VERIFY  # type: ignore[attr-defined]
    verify.seq_lens = getattr(batch.spec_info, _PLANNED).lens
    # The pool's rows bound the table; the host's lengths, where there are any, are those behind the batch's tokens.
    verify.seq_lens_cpu = None
    return verify
