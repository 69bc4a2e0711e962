"""DeepSeek Sparse Attention, NSA in older trees, plans its graphs from what is on the device and from shapes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .lengths import lens_sum, mirror_uniform_extend_lens
from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeGuard

    from .shapes import MirroredBatch, Mode, SparseAttention, SparseBatch

_CLASSES = {"DeepseekSparseAttnBackend", "NativeSparseAttnBackend"}


def does_without_mirror(backend: object) -> TypeGuard[SparseAttention]:
    """Tell whether this is such a backend and 29413 is in its tree and not off.

    A subclass, whose overrides nobody has looked at, is none.
    """
    known = type(backend).__name__ in _CLASSES and not getattr(backend, "needs_cpu_seq_lens", True)
    return known and not disabled("29413")


def graphs_sparse_draft_extend(backend: object) -> bool:
    """Tell whether a v2 draft-extend of this backend may be captured in a graph.

    It may where the replay's shape is a fixed one, which comes with doing without the mirror, and with a top-k of at
    most 1. Source: 29413.
    """
    return does_without_mirror(backend) and backend.topk <= 1


def sparse_columns(
    lens_cpu: torch.Tensor | None, table: torch.Tensor, rows: torch.Tensor, more: int = 0
) -> int:
    """Return how many columns of a graph's page ``table`` a replay fills from ``rows`` of the request pool.

    All of them, whatever the lengths: a mirror buffer that nobody filled looks like one that is there. Switched off,
    as many as the longest of the mirror and ``more`` tokens. Source: pull request 29413.
    """
    if lens_cpu is not None and disabled("29413"):
        return int(lens_cpu.max()) + more
    return min(table.shape[1], rows.shape[1])


def sparse_extend_lens(
    mode: Mode, accepted: torch.Tensor, count: int, stride: int, like: torch.Tensor
) -> tuple[torch.Tensor, Sequence[int]]:
    """Return what each of ``count`` requests of a draft-extend extends by, on the device of ``like`` and on the host.

    A v2 draft-extend writes ``stride`` tokens a request, accepted or not; another extends by what was ``accepted``
    (int32, shape [batch], on the device), which the host waits for. Source: pull request 29413.
    """
    if mode.is_draft_extend_v2():
        return torch.full((count,), stride, dtype=torch.int32, device=like.device), [stride] * count
    lens = accepted[:count]
    return lens, lens.tolist()


def restore_sparse_lens(forward_batch: SparseBatch) -> None:
    """Fetch what a forward without a graph plans on the host if the batch came without it, waiting for the device.

    The batch gets its mirror, and a draft-extend what each request extends by. Source: pull request 29798.
    """
    if forward_batch.seq_lens_cpu is None:
        mirror = forward_batch.seq_lens.cpu()
        forward_batch.seq_lens_cpu, forward_batch.seq_lens_sum = mirror, lens_sum(mirror)
    mirror_uniform_extend_lens(forward_batch)


def has_no_requests(forward_batch: MirroredBatch) -> bool:
    """Tell whether a batch is empty: by its mirror as long as it has one, else by its lengths' shape. Source: 29798."""
    lens = forward_batch.seq_lens if forward_batch.seq_lens_cpu is None else forward_batch.seq_lens_cpu
    return len(lens) == 0
