"""What a fill of a paged backend's graph metadata reads, and the buffers that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch


class Batch(NamedTuple):
    """Requests whose metadata is to be written.

    ``seq_lens`` and ``req_pool_indices`` are integer, of shape [>= size], contiguous, on the device; what is
    behind ``size`` is not read. Each request attends to its length plus ``extra`` tokens.
    """

    seq_lens: torch.Tensor
    req_pool_indices: torch.Tensor
    size: int
    extra: int


class Lengths(NamedTuple):
    """Where lengths and offsets go: int32, contiguous, on the device.

    ``keys`` [>= size] gets the tokens that each request attends to, and ``key_offsets`` [>= size + 1] their
    prefix sums from 0. ``query_offsets`` [>= size + 1], None where a graph's never change, gets the prefix sums,
    from 0, of ``accepted`` (integer, [>= size]) or, where that is None, of ``query_stride``.

    Where a draft plans several ``steps`` at once, ``keys`` and ``key_offsets`` have a row for each, [steps, ...]; each
    request attends to one token more than in the step before.
    """

    keys: torch.Tensor
    key_offsets: torch.Tensor
    query_offsets: torch.Tensor | None = None
    query_stride: int = 0
    accepted: torch.Tensor | None = None
    steps: int = 1


class PageTables(NamedTuple):
    """Where page numbers come from and where they go, on the device.

    ``req_to_token`` (integer, [requests, tokens], contiguous) has the slot of each request's every
    token, of which every ``page_size``-th begins a page. ``pages`` (int32, [>= size, pages], contiguous)
    gets their page numbers. ``swa_pages`` (the same; None without a sliding-window pool) gets those of their
    counterparts in ``full_to_swa`` (integer, [slots]); a negative slot has none, and its page there is -1.
    """

    req_to_token: torch.Tensor
    page_size: int
    pages: torch.Tensor
    full_to_swa: torch.Tensor | None = None
    swa_pages: torch.Tensor | None = None


class Offsets(NamedTuple):
    """Where the prefix sums of a batch's lengths go, [>= size + 1] each, contiguous; None where there is none.

    ``keys`` (int32) are the tokens that each request attends to. ``queries`` (int64) are ``stride`` a request. ``mask``
    (int64) are ``stride * (length + stride)``, a tree mask's part of each request. The first element of ``keys`` and
    of ``mask`` is 0 and stays. Where a length counts tokens that are written only now, it is taken without ``ahead`` of
    them, at least 0.
    """

    keys: torch.Tensor
    queries: torch.Tensor | None = None
    mask: torch.Tensor | None = None
    stride: int = 0
    ahead: int = 0


class Rows(NamedTuple):
    """Requests of whose every token a backend lists the slot.

    ``seq_lens`` and ``req_pool_indices`` are integer, [>= size], contiguous, on the device. ``req_to_token`` (integer,
    [requests, tokens], contiguous) has the slots. ``slots`` (int64, contiguous) gets those of request after request;
    what is behind the last keeps what it holds.
    """

    size: int
    seq_lens: torch.Tensor
    req_pool_indices: torch.Tensor
    req_to_token: torch.Tensor
    slots: torch.Tensor
