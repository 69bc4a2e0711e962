"""Fill the query metadata of a v2 draft-extend, which writes the same number of tokens for every request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .shapes import QueryMetadata

# The attribute's names; the latter before 25014.
_ACCEPTED = ("num_accept_tokens", "num_accepted_tokens")


def accepted_tokens(spec_info: object) -> torch.Tensor:
    """Return how many tokens each request of a v1 draft-extend accepted, under either of the attribute's names."""
    named: torch.Tensor = next(getattr(spec_info, name) for name in _ACCEPTED if hasattr(spec_info, name))
    return named


def fill_draft_extend_v2(
    metadata: QueryMetadata, tokens_per_request: int, accepted: torch.Tensor, bs: int
) -> None:
    """Fill ``metadata.max_seq_len_q`` and ``metadata.cu_seqlens_q`` (int32, shape [bs + 1]; its first element stays 0).

    ``tokens_per_request`` is the spec info's stride. If it is not positive, as at capture, the stride is the
    greatest of ``accepted`` (int32, shape [>= bs], on the device), which waits for the device. Source: 25002.
    """
    stride = tokens_per_request if tokens_per_request > 0 else int(accepted[:bs].max())
    offsets = metadata.cu_seqlens_q
    metadata.max_seq_len_q = stride
    offsets[1:].copy_(torch.arange(stride, bs * stride + 1, stride, dtype=torch.int32, device=offsets.device))
