"""Plan graphs of DeepSeek Sparse Attention (NSA in older trees) from the device and from shapes only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .lengths import lens_sum, mirror_uniform_extend_lens
from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeGuard

    from .shapes import MirroredBatch, Mode

_CLASSES = {"DeepseekSparseAttnBackend", "NativeSparseAttnBackend"}


def does_without_mirror(backend: object) -> TypeGuard[Any]:
    """Return whether this is such a backend, in a tree with 29413, which is not disabled.

    A subclass, whose overrides are unknown, does not count.
    """
    known = type(backend).__name__ in _CLASSES and not getattr(backend, "needs_cpu_seq_lens", True)
    return known and not disabled("29413")


def graphs_sparse_draft_extend(backend: object) -> bool:
    """Return whether a v2 draft-extend of this backend can be captured in a graph.

    It can with a top-k of at most 1 if the replay's shape is fixed, as it is without the mirror. Source: 29413.
    """
    return does_without_mirror(backend) and backend.topk <= 1


def sparse_columns(
    lens_cpu: torch.Tensor | None, table: torch.Tensor, rows: torch.Tensor, more: int = 0
) -> int:
    """Return how many columns of a graph's page ``table`` a replay fills from ``rows`` of the request pool.

    All of them, whatever the lengths, since a mirror buffer that was never filled cannot be distinguished from a filled
    one. With 29413 disabled, the longest of the mirror plus ``more`` tokens. Source: pull request 29413.
    """
    if lens_cpu is not None and disabled("29413"):
        return int(lens_cpu.max()) + more
    return min(table.shape[1], rows.shape[1])


def sparse_extend_lens(
    mode: Mode, accepted: torch.Tensor, count: int, stride: int, like: torch.Tensor
) -> tuple[torch.Tensor, Sequence[int]]:
    """Return the tokens that each of ``count`` requests of a draft-extend adds, on ``like``'s device and on the host.

    A v2 draft-extend writes ``stride`` tokens per request, accepted or not; a v1 one adds the ``accepted`` ones
    (int32, shape [batch], on the device), and the host waits for these. Source: pull request 29413.
    """
    if mode.is_draft_extend_v2():
        return torch.full((count,), stride, dtype=torch.int32, device=like.device), [stride] * count
    lens = accepted[:count]
    return lens, lens.tolist()


def restore_sparse_lens(forward_batch: Any) -> None:
    """Copy the lengths that a forward without a graph plans from to the host if they are missing; waits for the device.

    Sets the batch's mirror and, for a draft-extend, its extend lengths. Source: pull request 29798.
    """
    if forward_batch.seq_lens_cpu is None:
        mirror = forward_batch.seq_lens.cpu()
        forward_batch.seq_lens_cpu, forward_batch.seq_lens_sum = mirror, lens_sum(mirror)
    mirror_uniform_extend_lens(forward_batch)


def has_no_requests(forward_batch: MirroredBatch) -> bool:
    """Return whether a batch is empty, by its mirror if it has one, else by its lengths' shape. Source: 29798."""
    lens = forward_batch.seq_lens if forward_batch.seq_lens_cpu is None else forward_batch.seq_lens_cpu
    return len(lens) == 0
