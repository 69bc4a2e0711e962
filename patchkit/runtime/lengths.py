"""Lengths and totals, from the host mirror if it is kept, else without waiting for the device where possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import torch

from .wrappers import verifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .shapes import MirroredBatch, VerifyBackend, VerifyBatch

_WIDTH = "patchkit_row_length"


def total_or_bound(total: int | None, count: int, max_context_len: int) -> int:
    """Return ``total`` tokens or, if it is None, the most that ``count`` requests can have.

    For sizing only: a buffer of the bound has an unused tail. Source: pull requests 26128 and 26738.
    """
    return count * max_context_len if total is None else total


def size_or_bound(size: int | torch.Tensor, batch: Any, max_context_len: int) -> int | torch.Tensor:
    """Return ``size``, or the bound of ``total_or_bound`` if the batch's total is unknown.

    ``size`` is an int or a device scalar; sizing by the latter waits for the device. Source: 26738.
    """
    return size if batch.seq_lens_sum is not None else batch.batch_size * max_context_len


def host_total(lens: Sequence[int] | None, count: int, max_context_len: int) -> int:
    """Return the sum of ``lens`` on the host, or the bound of ``total_or_bound`` without them. Source: 26738."""
    return total_or_bound(None if lens is None else sum(lens), count, max_context_len)


def padded_total(total: int | None, padding: int) -> int | None:
    """Return ``total`` plus the ``padding`` tokens of a graph batch; None stays None."""
    return None if total is None else total + padding


def longest(lens_cpu: Sequence[int] | None, lens: torch.Tensor) -> int:
    """Return the greatest length from the host mirror or, without one, from the device, with a wait.

    ``lens``: int32, shape [batch], on the device. Source: pull request 26738.
    """
    return int(lens.max()) if lens_cpu is None else max(lens_cpu)


def longest_or_bound(lens_cpu: torch.Tensor | None, max_context_len: int) -> int:
    """Return the greatest length of the mirror (int64, shape [batch], CPU), or the context length without one.

    The mirror of an idle data-parallel rank is empty and has none. For sizing only: a table of the bound has unused
    columns. Source: pk-trtllm-mha-opt-out; for an idle rank, upstream's 0.5.19.
    """
    return max_context_len if lens_cpu is None or not len(lens_cpu) else int(lens_cpu.max())


def lens_sum(lens_cpu: torch.Tensor | None) -> int | None:
    """Return the sum of the mirror (int64, shape [batch], CPU), None without one. Source: 26128."""
    return None if lens_cpu is None else int(lens_cpu.sum())


def lens_on_device(lens: Sequence[int] | torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Return lengths as int32, shape [batch], on ``device``; a tensor must be there already. Source: 26128."""
    if isinstance(lens, torch.Tensor):
        return lens
    return torch.tensor(lens, dtype=torch.int32).to(device, non_blocking=True)


def host_lens(lens: Sequence[int] | torch.Tensor | None) -> Sequence[int] | None:
    """Return lengths on the host unchanged, and None for a device tensor. Source: 26128."""
    return None if isinstance(lens, torch.Tensor) else lens


@overload
def draft_extend_lens(
    stride: int, prefix_lens_cpu: torch.Tensor, prefix_lens: torch.Tensor
) -> tuple[list[int], list[int]]: ...
@overload
def draft_extend_lens(
    stride: int, prefix_lens_cpu: None, prefix_lens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]: ...
def draft_extend_lens(
    stride: int, prefix_lens_cpu: torch.Tensor | None, prefix_lens: torch.Tensor
) -> tuple[list[int], list[int]] | tuple[torch.Tensor, torch.Tensor]:
    """Return extend and prefix lengths of a draft-extend that writes ``stride`` tokens per request.

    With the mirror (``prefix_lens_cpu``, shape [batch], CPU) both are lists. Without, both are int32 tensors of
    shape [batch] on the device of ``prefix_lens``. Source: pull request 26128.
    """
    count = prefix_lens.shape[0]
    if prefix_lens_cpu is not None:
        return [stride] * count, prefix_lens_cpu.tolist()
    lens = torch.full((count,), stride, dtype=torch.int32, device=prefix_lens.device)
    return lens, prefix_lens.to(torch.int32)


def mirror_uniform_extend_lens(forward_batch: Any) -> None:
    """Set a draft-extend batch's missing host extend lengths, which are all equal, without a copy. Source: 26738."""
    if forward_batch.extend_seq_lens is not None and forward_batch.extend_seq_lens_cpu is None:
        count = forward_batch.batch_size
        forward_batch.extend_seq_lens_cpu = [forward_batch.extend_num_tokens // max(count, 1)] * count


def row_length(attn_backend: VerifyBackend) -> int:
    """Return the most tokens that a request can have: the width of its row in the request pool.

    That is more than the context length, since a request at its limit is launched once more. The pool is that of
    the wrapped backend that verifies or, for an unknown wrapper, of any object that it holds. Source:
    26128/guards.
    """
    known: int | None = getattr(attn_backend, _WIDTH, None)
    if known is None:
        owner = verifier(attn_backend)
        pools = [
            getattr(each, "req_to_token", None) for each in (owner, *getattr(owner, "__dict__", {}).values())
        ]
        widths = [rows.shape[1] for rows in pools if isinstance(rows, torch.Tensor)]
        known = int(max(widths) if widths else owner.max_context_len)
        # Needed twice in every step, and the pool is never exchanged.
        setattr(attn_backend, _WIDTH, known)
    return known


def tree_mask_total(batch: VerifyBatch, attn_backend: VerifyBackend) -> int:
    """Return the total length that sizes a verify's tree mask; without the mirror, the batch's upper bound.

    A preallocated mask does not depend on it. Source: pull request 26128.
    """
    if batch.seq_lens_sum is not None:
        return int(batch.seq_lens_sum)
    return int(batch.seq_lens.shape[0]) * row_length(attn_backend)


def restore_host_lens(forward_batch: MirroredBatch, batch: object) -> None:
    """Copy the lengths that multimodal position code reads to the host if they are missing; waits for the device.

    ``forward_batch.seq_lens_cpu`` becomes a CPU tensor, extend and prefix lengths of ``batch`` become lists.
    """
    if forward_batch.seq_lens_cpu is None:
        forward_batch.seq_lens_cpu = forward_batch.seq_lens.cpu()
    for name in ("extend_seq_lens", "extend_prefix_lens", "extend_lens", "prefix_lens"):
        lens = getattr(batch, name, None)
        if isinstance(lens, torch.Tensor):
            setattr(batch, name, lens.tolist())
