"""Draft a tree of one branch, a chain, without probabilities, sort or search for parents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from .constants import made_once
from .switches import disabled

Tree = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
# Scores, tokens, hidden states, and the scores of the branches so far, None before the first step.
DraftedChains = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]
Selected = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor, Sequence[torch.Tensor]]


class _Chain(NamedTuple):
    """The tensors that all chains of one number of steps share, one row per request; read only."""

    # int64, shape [rows, steps + 1]: -1, 0, 1, …, the parents of all steps.
    parents_by_step: torch.Tensor
    # int64, shape [rows, steps], [rows, 0] for a single step: the parents of all steps but the last.
    parents: torch.Tensor
    # int64, shape [rows, steps]: 0, 1, 2, …
    order: torch.Tensor


def _make(rows: int, steps: int, device: torch.device) -> _Chain:
    by_step = torch.arange(-1, steps, dtype=torch.int64, device=device).repeat(rows, 1)
    order = torch.arange(steps, dtype=torch.int64, device=device).repeat(rows, 1)
    return _Chain(by_step, by_step[:, : steps if steps > 1 else 0].contiguous(), order)


class _Shape(NamedTuple):
    """The shape of a draft: branches per step, steps, and tokens passed to the verify."""

    topk: int
    steps: int
    tokens: int


def _chain(patch: str, shape: _Shape, rows: int, device: torch.device) -> _Chain | None:
    """Return the chain for a draft of this shape; None if it is not a chain or ``patch`` is disabled."""
    if shape.topk != 1 or shape.tokens != shape.steps + 1 or rows == 0 or disabled(patch):
        return None
    return made_once(_make, rows, shape.steps, device)


def _ones(rows: int, width: int, device: torch.device) -> torch.Tensor:
    return torch.ones((rows, width), dtype=torch.float32, device=device)


def draft_top_k(
    logits: torch.Tensor, topk: int, fast_topk: Callable[..., tuple[torch.Tensor, torch.Tensor]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scores (float32) and tokens (int64), shape [rows, topk], for ``logits`` of shape [rows, vocabulary].

    For a top-k of 1 no score is used: scores are 1, and the token is the argmax, without a softmax over the
    vocabulary. Not on ROCm, whose argmax breaks ties differently. ``fast_topk`` is the tree's own. Source: 26235,
    26397.
    """
    if topk != 1 or torch.version.hip is not None or disabled("26397"):
        return fast_topk(torch.softmax(logits, dim=-1), topk, dim=-1)
    tokens = torch.argmax(logits, dim=-1, keepdim=True)
    return unit_scores(tokens), tokens


def unit_scores(tokens: torch.Tensor) -> torch.Tensor:
    """Return the scores of the only branches' ``tokens``, [rows, 1]: ones, float32, which must not be written to."""
    scores = made_once(_ones, len(tokens), 1, tokens.device)
    return torch.ones_like(tokens, dtype=torch.float32) if scores is None else scores[: len(tokens)]


def pass_draft_tokens(
    shape: tuple[int, int, int], select: Callable[..., Selected], step: int, drafted: DraftedChains
) -> Selected:
    """Return the next step's input tokens, hidden states and scores, and this step's scores, tokens and parents.

    ``shape`` is the worker's top-k, steps and draft tokens. ``select`` is the tree's own function for this, and
    ``drafted`` its further arguments: scores and tokens of shape [rows, top-k], hidden states of shape [rows, …],
    all on the device, and the scores of the branches so far. A chain needs no selection: its tensors are returned
    unchanged. Source: 30947.
    """
    scores, tokens, hidden_states, sums = drafted
    rows = tokens.shape[0]
    chain = _chain("26424/steps", _Shape(*shape), rows, tokens.device)
    if chain is None:
        return select(step, scores, tokens, hidden_states, sums, shape[0])
    first, last = (0, 2) if step == 0 else (step + 1, step + 2)
    parents = chain.parents_by_step[:rows, first:last]
    return tokens.flatten(), hidden_states, scores, (scores.view(rows, 1, 1), tokens, parents)


def draft_chain(shape: tuple[int, int, int], tokens: Sequence[torch.Tensor]) -> Tree | None:
    """Return parents, order and tokens of a draft of one branch; None for other drafts, which the caller sorts.

    ``shape`` is the worker's top-k, steps and draft tokens; ``tokens`` are those of each step, int64, shape [rows,
    1]. Parents and order are shared by all batches and must not be written to. Source: 26424.
    """
    rows, device = tokens[0].shape[0], tokens[0].device
    chain = _chain("26424", _Shape(*shape), rows, device) if len(tokens) == shape[1] else None
    if chain is None:
        return None
    return chain.parents[:rows], chain.order[:rows], torch.cat(list(tokens), dim=1)
