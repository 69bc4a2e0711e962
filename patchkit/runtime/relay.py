"""Pass a step's results to the next step of the same batch directly, without storing them in the future map."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch

from .streams import current_stream, order_behind
from .switches import disabled
from .verify_outputs import bonus_as

if TYPE_CHECKING:
    from .shapes import FutureMap, LensMap, Located

_CLASS = "FutureMap"
# With it a later map looks lengths up for requests that decode in a batch with prefills (0.5.19 and later).
_READER = "resolve_mixed_spec_tails"
_KEPT, _KEPT_LENS = "patchkit_kept_results", "patchkit_kept_lens"
_ROWS = "_buf"
# The rows of tokens, and the result that goes there. They are made for a prefill's or a plain decoding's tokens, and
# may be wider than a verify's.
_NAMES = {name: name for name in ("bonus_tokens", "verified_id")} | {"output_tokens": "bonus_tokens"}


class _Algorithm(Protocol):
    def is_eagle(self) -> bool: ...

    def is_standalone(self) -> bool: ...


class _Lens(NamedTuple):
    stream: torch.Stream
    rows: torch.Tensor
    lens: torch.Tensor


class _Kept(NamedTuple):
    stream: torch.Stream
    at: torch.Tensor | Located
    rows: torch.Tensor
    results: object


def _rows_of(at: torch.Tensor | Located) -> torch.Tensor:
    return at if isinstance(at, torch.Tensor) else at.indices


def _relays(future_map: object) -> bool:
    """Return whether a step's results stay as they are, and steps read them only through the map's patched methods.

    A subclass may read its rows itself. Workers of other algorithms return views of a graph's buffers, which the next
    step's replay overwrites while the step still reads them.
    """
    algorithm: _Algorithm | None = getattr(future_map, "spec_algo", None)
    owned = algorithm is not None and (algorithm.is_eagle() or algorithm.is_standalone())
    return owned and type(future_map).__name__ == _CLASS and not disabled("pk-step-relay")


def _same_as_stored(future_map: FutureMap, results: object) -> bool:
    """Return whether ``results`` equal what reading the map's rows would give."""
    buffers = {
        name.removesuffix(_ROWS): value
        for name, value in vars(future_map).items()
        if name.endswith(_ROWS) and isinstance(value, torch.Tensor)
    }
    if not buffers.keys() & {"topk_index", "topk_p"}:
        # The first results determine the map's rows.
        return False
    for name, buffer in buffers.items():
        value = getattr(results, _NAMES.get(name, name), None)
        if name == "new_seq_lens" and value is None:
            # Published on their own.
            continue
        if value is None or (value.dtype != buffer.dtype and name not in _NAMES):
            return False
    return True


def keep_results(
    future_map: FutureMap, at: torch.Tensor | Located, results: object, accept_lens: torch.Tensor | None
) -> bool:
    """Keep a decode step's ``results`` for the next step; return False if they must be stored.

    ``at`` is where the map would store them. The results of a prefill, which have no ``accept_lens``, may be in the
    buffers of a graph that another prefill replays, and are not kept. Source: pk-step-relay.
    """
    rows = _rows_of(at)
    store_kept_results(future_map)
    if accept_lens is None or len(rows) == 0 or not _relays(future_map):
        return False
    if not _same_as_stored(future_map, results):
        return False
    setattr(future_map, _KEPT, _Kept(current_stream(rows.device), at, rows, results))
    return True


def kept_results(future_map: FutureMap, results: object, rows: torch.Tensor) -> bool:
    """Return whether ``results`` are those of the last step for exactly these ``rows``, so that none is read.

    Results kept for another batch, or one filtered or merged since, are stored, for the caller to read. Source:
    pk-step-relay.
    """
    kept: _Kept | None = getattr(future_map, _KEPT, None)
    if kept is None:
        return False
    if kept.results is not results or kept.rows is not rows:
        store_kept_results(future_map)
        return False
    setattr(future_map, _KEPT, None)
    for name, field in _NAMES.items():
        rows_of_tokens: torch.Tensor | None = getattr(future_map, f"{name}{_ROWS}", None)
        if rows_of_tokens is not None:
            setattr(results, field, bonus_as(getattr(results, field), rows_of_tokens.dtype))
    return True


def store_kept_results(future_map: FutureMap) -> None:
    """Store kept results, before later ones are stored or a row is read.

    A decode server stores requests that arrive on the scheduler's stream, which then waits for the results. Source:
    pk-step-relay.
    """
    kept: _Kept | None = getattr(future_map, _KEPT, None)
    if kept is not None:
        setattr(future_map, _KEPT, None)
        order_behind(kept.stream, kept.rows.device)
        store = getattr(future_map, "stash", None) or future_map.store_to_map_for_new_batch
        store(kept.at, kept.results)


def keep_lens(future_map: LensMap, rows: torch.Tensor, lens: torch.Tensor) -> None:
    """Keep a step's new lengths (integer, [requests], on the device) for the next step, or write them to their rows.

    They are written if the host reads the rows, as it does in a tree without 26128, if another method of the map does,
    or if the algorithm is not EAGLE or STANDALONE. Source: pk-step-relay.
    """
    kept: _Lens | None = getattr(future_map, _KEPT_LENS, None)
    if kept is not None:
        order_behind(kept.stream, kept.rows.device)
        _store_lens(future_map)
    buffer = future_map.new_seq_lens_buf
    if (
        getattr(future_map, "needs_cpu_seq_lens", True)
        or lens.dtype != buffer.dtype
        or hasattr(future_map, _READER)
        or not _relays(future_map)
    ):
        buffer[rows] = lens.to(buffer.dtype)
    else:
        setattr(future_map, _KEPT_LENS, _Lens(current_stream(rows.device), rows, lens))


def kept_lens(future_map: LensMap, rows: torch.Tensor) -> torch.Tensor:
    """Return the lengths of ``rows``: those kept by the last step for exactly these, else the rows' content.

    The current stream has waited for the event that the caller recorded behind them. Source: pk-step-relay.
    """
    kept: _Lens | None = getattr(future_map, _KEPT_LENS, None)
    if kept is not None and kept.rows is rows:
        # Newer ones are published before the next call.
        setattr(future_map, _KEPT_LENS, None)
        return kept.lens
    _store_lens(future_map)
    return future_map.new_seq_lens_buf[rows]


def _store_lens(future_map: LensMap) -> None:
    kept: _Lens | None = getattr(future_map, _KEPT_LENS, None)
    if kept is not None:
        setattr(future_map, _KEPT_LENS, None)
        future_map.new_seq_lens_buf[kept.rows] = kept.lens
