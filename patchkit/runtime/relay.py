"""A step's results reach the next step of the same batch as they are, without a way through the future map's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from .switches import disabled

if TYPE_CHECKING:
    from .shapes import FutureMap, LensMap, Located

_KEPT, _KEPT_LENS = "patchkit_kept_results", "patchkit_kept_lens"
_ROWS = "_buf"
# The rows of output tokens are those of plain decoding too, and wider than a draft's bonus tokens.
_NAMES = {"output_tokens": "bonus_tokens"}


class _Lens(NamedTuple):
    rows: torch.Tensor
    lens: torch.Tensor


class _Kept(NamedTuple):
    at: torch.Tensor | Located
    rows: torch.Tensor
    results: object


def _rows_of(at: torch.Tensor | Located) -> torch.Tensor:
    return at if isinstance(at, torch.Tensor) else at.indices


def _same_as_stored(future_map: FutureMap, results: object) -> bool:
    """Tell whether reading the map's rows would give what ``results`` have, and nothing else."""
    buffers = {
        name.removesuffix(_ROWS): value
        for name, value in vars(future_map).items()
        if name.endswith(_ROWS) and isinstance(value, torch.Tensor)
    }
    if not buffers.keys() & {"topk_index", "topk_p"}:
        # The first results decide what rows there are.
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
    """Keep a decode step's ``results`` for the next step, and tell whether that was done; else they have to be stored.

    ``at`` is where the map would store them. The results of a prefill, which has no ``accept_lens``, may be those of a
    graph that another prefill replays, and are not kept. Source: pk-step-relay.
    """
    rows = _rows_of(at)
    store_kept_results(future_map)
    if accept_lens is None or len(rows) == 0 or disabled("pk-step-relay"):
        return False
    if not _same_as_stored(future_map, results):
        return False
    setattr(future_map, _KEPT, _Kept(at, rows, results))
    return True


def kept_results(future_map: FutureMap, results: object, rows: torch.Tensor) -> bool:
    """Tell whether ``results`` are what the last step left for exactly these ``rows``: then none is read.

    Results that were kept for another batch, or for one that was filtered or merged since, are stored, so that the
    caller finds them in the map's rows. Source: pk-step-relay.
    """
    kept: _Kept | None = getattr(future_map, _KEPT, None)
    if kept is None:
        return False
    if kept.results is not results or kept.rows is not rows:
        store_kept_results(future_map)
        return False
    setattr(future_map, _KEPT, None)
    tokens: torch.Tensor | None = getattr(future_map, "output_tokens_buf", None)
    if tokens is not None:
        results.bonus_tokens = results.bonus_tokens.to(tokens.dtype)  # type: ignore[attr-defined]
    return True


def store_kept_results(future_map: FutureMap) -> None:
    """Store what was kept, if anything, before later results are stored or a row is read. Source: pk-step-relay."""
    kept: _Kept | None = getattr(future_map, _KEPT, None)
    if kept is not None:
        setattr(future_map, _KEPT, None)
        store = getattr(future_map, "stash", None) or future_map.store_to_map_for_new_batch
        store(kept.at, kept.results)


def keep_lens(future_map: LensMap, rows: torch.Tensor, lens: torch.Tensor) -> None:
    """Keep a step's new lengths (integer, [requests], on the device) for the next, or write them into their rows.

    They are written where the host reads the rows too. Source: pk-step-relay.
    """
    _store_lens(future_map)
    buffer = future_map.new_seq_lens_buf
    if future_map.needs_cpu_seq_lens or lens.dtype != buffer.dtype or disabled("pk-step-relay"):
        buffer[rows] = lens.to(buffer.dtype)
    else:
        setattr(future_map, _KEPT_LENS, _Lens(rows, lens))


def kept_lens(future_map: LensMap, rows: torch.Tensor) -> torch.Tensor:
    """Return the lengths of ``rows``: what the last step kept for exactly these, else what their rows have.

    Source: pk-step-relay.
    """
    kept: _Lens | None = getattr(future_map, _KEPT_LENS, None)
    if kept is not None and kept.rows is rows:
        # Newer ones are published before anybody asks again.
        setattr(future_map, _KEPT_LENS, None)
        return kept.lens
    _store_lens(future_map)
    return future_map.new_seq_lens_buf[rows]


def _store_lens(future_map: LensMap) -> None:
    kept: _Lens | None = getattr(future_map, _KEPT_LENS, None)
    if kept is not None:
        setattr(future_map, _KEPT_LENS, None)
        future_map.new_seq_lens_buf[kept.rows] = kept.lens
