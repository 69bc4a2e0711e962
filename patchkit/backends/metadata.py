"""Inputs and output buffers of the fills of graph metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Batch(NamedTuple):
    """Requests whose metadata is written.

    ``seq_lens`` and ``req_pool_indices`` are integer, of shape [>= size], contiguous, on the device; elements from
    ``size`` on, which may be 0, are not read. Each request attends to its length plus ``extra`` tokens.
    """

    seq_lens: torch.Tensor
    req_pool_indices: torch.Tensor
    size: int
    extra: int


class Lengths(NamedTuple):
    """Buffers for lengths and offsets: int32, contiguous, on the device.

    ``keys`` [>= size] gets the tokens that each request attends to, ``key_offsets`` [>= size + 1] their prefix sums
    from 0. ``query_offsets`` [>= size + 1], None if the graph's do not change, gets the prefix sums, from 0, of
    ``accepted`` (integer, [>= size]) or, if that is None, of ``query_stride``. If a draft plans several ``steps``
    at once, ``keys`` and ``key_offsets`` have one row per step, [steps, ...]; each request attends to one token
    more than in the step before.
    """

    keys: torch.Tensor
    key_offsets: torch.Tensor
    query_offsets: torch.Tensor | None = None
    query_stride: int = 0
    accepted: torch.Tensor | None = None
    steps: int = 1


class PageTables(NamedTuple):
    """Source and buffers of page numbers, on the device.

    ``req_to_token`` (integer, [requests, tokens], contiguous) has the slot of each token of each request; every
    ``page_size``-th token starts a page. ``pages`` (int32, [>= size, pages], contiguous) gets their page numbers.
    ``swa_pages`` (the same; None without a sliding-window pool) gets the pages of their slots in ``full_to_swa``
    (integer, [slots]), -1 for negative slots.
    """

    req_to_token: torch.Tensor
    page_size: int
    pages: torch.Tensor
    full_to_swa: torch.Tensor | None = None
    swa_pages: torch.Tensor | None = None


class Offsets(NamedTuple):
    """Buffers for prefix sums of a batch's lengths, [>= size + 1] each, contiguous; None if not needed.

    ``keys`` (int32) counts the tokens that each request attends to. ``queries`` (int64) counts ``stride`` per
    request. ``mask`` (int64) counts ``stride * (length + stride)``, each request's part of a tree mask. The first
    element of ``keys`` and ``mask`` must be 0 and is not written. ``ahead`` is subtracted from a length that already
    counts tokens that are not written yet; the difference is at least 0.
    """

    keys: torch.Tensor
    queries: torch.Tensor | None = None
    mask: torch.Tensor | None = None
    stride: int = 0
    ahead: int = 0


class Rows(NamedTuple):
    """Requests for which a backend lists the slot of every token.

    ``seq_lens`` and ``req_pool_indices`` are integer, [>= size], contiguous, on the device. ``req_to_token``
    (integer, [requests, tokens], contiguous) has the slots. ``slots`` (int64, contiguous) gets those of all
    requests, one after the other; elements after the last one are not written. ``size`` may be 0; no request has more
    tokens than its row.
    """

    size: int
    seq_lens: torch.Tensor
    req_pool_indices: torch.Tensor
    req_to_token: torch.Tensor
    slots: torch.Tensor


class Trees(NamedTuple):
    """The trees of a batch's drafts, ``tokens`` each, on the device.

    ``mask`` (bool, contiguous) says what each draft token sees: of the draft tokens, [live tokens, tokens], or of the
    request's whole context and them. ``live`` is the number of draft tokens of requests that are not padding, whose
    tokens see what the mask's first element says. ``counts`` (int32, [requests x tokens], contiguous) gets how many
    draft tokens each of them sees.
    """

    mask: torch.Tensor
    live: int
    tokens: int
    counts: torch.Tensor
