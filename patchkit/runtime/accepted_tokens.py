"""Read what a v1 verify accepted with one copy to the host, and commit it in one launch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from ..backends.commit import commit_paths
from ..backends.step_buffers import AcceptedPaths
from .switches import disabled

_PATCH = "pk-accepted-tokens"
_LISTS = "patchkit_lists"
_COMMITTED = "patchkit_committed"
_GATHERED = "patchkit_gathered"


class _Committed(NamedTuple):
    """What a commit leaves, on the device but for ``drafts``."""

    places: torch.Tensor
    tokens: torch.Tensor
    counts: torch.Tensor
    kept: torch.Tensor
    freed: torch.Tensor
    drafts: torch.Tensor


class _Extend(NamedTuple):
    """The inputs of a draft-extend of committed tokens; stored on these."""

    positions: torch.Tensor
    bonus: torch.Tensor
    starts: torch.Tensor


def accepted_lists(
    index: torch.Tensor, predicted: torch.Tensor, drafts: torch.Tensor
) -> tuple[list[list[int]], list[int]]:
    """Return the accepted places, [requests, depth], and the target's tokens on the host, with one copy.

    ``drafts``, int32, [requests], are the numbers of accepted drafts; they are copied with them. Waits for the
    device, as reading lists does. Source: pk-accepted-tokens.
    """
    requests, depth = index.shape
    if (
        any(part.dtype != torch.int32 for part in (index, predicted, drafts))
        or predicted.dim() != 1
        or disabled(_PATCH)
    ):
        return index.tolist(), predicted.tolist()
    places = requests * depth
    flat: list[int] = torch.cat((index.reshape(-1), drafts, predicted)).tolist()
    rows = [flat[first : first + depth] for first in range(0, places, depth)]
    setattr(index, _LISTS, (rows, flat[places : places + requests]))
    return rows, flat[places + requests :]


def commit_accepted(
    batch: Any,
    index: torch.Tensor,
    predicted: torch.Tensor,
    drafts: torch.Tensor,
    page_size: int,
    *,
    ended: bool,
) -> _Committed | None:
    """Write what a verify accepted to the batch's lengths and the request pool; None if the tree has to do all.

    That is for pages of more than one token, where a request ``ended``, and where the places are not each request's
    own. ``index`` (int32, [requests, depth]), ``predicted`` and ``drafts`` are what `accepted_lists` read. Source:
    pk-accepted-tokens.
    """
    read = getattr(index, _LISTS, None)
    slots, lens, table = batch.out_cache_loc, batch.seq_lens, batch.req_to_token_pool.req_to_token
    if (
        read is None
        or ended
        or page_size != 1
        or lens.dtype != torch.int64
        or slots.dtype != torch.int64
        or lens.device.type not in {"cpu", "cuda"}
        or torch.version.hip is not None
        or not all(each.is_contiguous() for each in (index, predicted, slots, lens, table))
    ):
        return None
    rows, counts = read
    tokens, rest = divmod(slots.shape[0], len(rows))
    if rest or predicted.shape[0] < slots.shape[0] or lens.shape[0] != len(rows):
        return None
    for request, (row, count) in enumerate(zip(rows, counts, strict=True)):
        first = request * tokens
        path, behind = row[: count + 1], row[count + 1 :]
        if not all(first <= place < first + tokens for place in path) or any(place != -1 for place in behind):
            return None
    paths = AcceptedPaths(index, drafts, lens, slots, batch.req_pool_indices.contiguous(), table)
    made = commit_paths(paths, predicted, sum(counts) + len(counts))
    setattr(made.tokens, _COMMITTED, _Extend(made.positions, made.bonus, made.starts))
    on_host = torch.tensor(counts, dtype=torch.int32)
    return _Committed(made.places, made.tokens, made.counts, made.kept, made.freed, on_host)


def gathered_once(states: torch.Tensor, places: torch.Tensor, *, keeps: bool = True) -> torch.Tensor:
    """Return the rows ``places`` of ``states``; those of the same tensors as before are the same result.

    Not if ``keeps``, a caller for whom no other may change what it gets. Source: pk-accepted-tokens.
    """
    known = None if keeps else getattr(places, _GATHERED, None)
    if known is not None and known[0] is states:
        found: torch.Tensor = known[1]
        return found
    rows = states[places]
    if not disabled(_PATCH):
        setattr(places, _GATHERED, (states, rows))
    return rows


def extend_of_accepted(tokens: torch.Tensor) -> _Extend | None:
    """Return the inputs of a draft-extend of committed ``tokens``, None if they are not computed.

    They are the tokens' ``positions`` (int64), and each request's last token, ``bonus``, and the row of its first,
    ``starts`` (int32, [requests]). Source: pk-accepted-tokens.
    """
    extend: _Extend | None = getattr(tokens, _COMMITTED, None)
    return extend


def joined_paths(paths: list[tuple[torch.Tensor, int, int | None]]) -> torch.Tensor:
    """Return the accepted places of some requests one after the other: of each its row of a tensor, to an end.

    Source: pk-accepted-tokens.
    """
    return torch.cat([index[request, :end] for index, request, end in paths])


def fill_padded(buffer: torch.Tensor, value: int, size: int, requests: int) -> None:
    """Fill a graph's buffer for ``size`` requests, unless there are as many ``requests``, which write all of it.

    Source: pk-accepted-tokens.
    """
    if size != requests or disabled(_PATCH):
        buffer.fill_(value)


def host_sum(lens: torch.Tensor, lens_cpu: torch.Tensor | None) -> int:
    """Return the sum of the lengths, [requests]: of the mirror if there is one, else with a wait for the device.

    Source: pk-accepted-tokens.
    """
    return int((lens if lens_cpu is None or disabled(_PATCH) else lens_cpu).sum())
