"""Fill the Triton backend's metadata for the replay of a speculative step in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backends.metadata import Offsets, Rows
from ..backends.ragged import fill_slots
from .switches import disabled

if TYPE_CHECKING:
    from typing import TypeGuard

    import torch

    from .shapes import TritonBackend


def is_plain_triton(backend: object) -> TypeGuard[TritonBackend]:
    """Return whether a backend is the tree's own class without a sliding window, which has other buffers."""
    window = getattr(backend, "sliding_window_size", None)
    return type(backend).__name__ == "TritonAttnBackend" and (window is None or window <= 0)


def _rows(backend: TritonBackend, size: int, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor) -> Rows:
    return Rows(size, seq_lens, req_pool_indices, backend.req_to_token, backend.cuda_graph_kv_indices)


def replay_triton_verify(
    backend: TritonBackend, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor, spec_info: object
) -> bool:
    """Fill the graph metadata of a Triton backend's target verify; return False if the tree has to.

    ``req_pool_indices``: integer, [requests], on the device; ``seq_lens``: integer, at least as many. The tree mask
    is copied unless the draft has written it into the graph's own buffer.
    """
    if disabled("pk-triton-replay") or not is_plain_triton(backend):
        return False
    mask, buffer = getattr(spec_info, "custom_mask", None), backend.cuda_graph_custom_mask
    if mask is not None and mask.data_ptr() != buffer.data_ptr():
        # A mask sized by a bound may be longer than the graph's, which is long enough for the requests.
        buffer[: mask.shape[0]] = mask[: buffer.shape[0]]
    offsets = Offsets(backend.kv_indptr, backend.qo_indptr, backend.mask_indptr, backend.num_draft_tokens)
    fill_slots(_rows(backend, req_pool_indices.shape[0], req_pool_indices, seq_lens), offsets)
    return True


def plans_triton_extend(backend: TritonBackend) -> bool:
    """Return whether `replay_triton_extend` fills a backend's metadata."""
    return not disabled("pk-triton-replay") and is_plain_triton(backend)


def replay_triton_extend(
    backend: TritonBackend, size: int, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor, stride: int
) -> bool:
    """Fill the graph metadata of a draft-extend of ``stride`` tokens per request; return False if the tree has to.

    ``req_pool_indices`` and ``seq_lens``: integer, [>= size], on the device.
    """
    if not plans_triton_extend(backend):
        return False
    offsets = Offsets(backend.kv_indptr, backend.qo_indptr, stride=stride)
    fill_slots(_rows(backend, size, req_pool_indices, seq_lens), offsets)
    return True


def replay_triton_extend_v2(
    backend: TritonBackend,
    size: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    spec_info: object,
) -> bool:
    """Fill what a v2 draft-extend reads in a graph of later trees, and return whether that was done.

    ``req_pool_indices`` and ``seq_lens``: integer, [>= size], on the device. Once a graph is replayed, ``spec_info``
    has the number of tokens that each request extends: the lengths include them, and they are not attended to from the
    cache. Left to the tree if they are not exactly the draft tokens: a later layer of a multi-layer draft also extends
    tokens before these. Source: pk-step-inputs.
    """
    stride = backend.num_draft_tokens
    replayed = getattr(spec_info, "extend_seq_lens_tensor", None) is not None
    others = replayed and getattr(spec_info, "num_tokens_per_req", None) != stride
    if disabled("pk-step-inputs") or not is_plain_triton(backend) or others:
        return False
    offsets = Offsets(backend.kv_indptr, backend.qo_indptr, stride=stride, ahead=stride if replayed else 0)
    fill_slots(_rows(backend, size, req_pool_indices, seq_lens), offsets)
    return True
