"""A FlashAttention-3 backend's metadata for a graph's replay is one ``fill``, from what the batch has on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .metadata import Batch, Lengths, PageTables
from .paged import fill

if TYPE_CHECKING:
    import torch

    from .shapes import FlashAttention, Mode, SpecInfo


def fill_flash_attention(
    backend: FlashAttention,
    bs: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    forward_mode: Mode,
    spec_info: SpecInfo,
    adds_written: bool = False,
) -> None:
    """Fill and make current the metadata that a FlashAttention backend keeps for graphs of ``bs`` requests.

    The arguments are those of upstream's replay, without the host mirror: ``seq_lens`` and ``req_pool_indices``,
    integer, shape [>= bs], on the device. For a draft's decode, target verify and draft-extend v1 and v2.
    ``paged.fill`` says what a page table holds behind a request's last page.

    ``max_seq_len_k`` becomes the context length: no kernel of a speculative step takes it. ``max_seq_len_q``
    does reach the kernel, which recorded the capture's tokens per request; it stays that, and a v2 draft-extend may
    name its own stride. With ``adds_written`` a v2 draft-extend's requests attend to as many tokens more, as they do
    in a tree of which it is so (26512).
    """
    queries = accepted = None
    if forward_mode.is_decode_or_idle():
        metadata = backend.decode_cuda_graph_metadata[bs]
        extra = backend.speculative_step_id + 1
    elif forward_mode.is_target_verify():
        metadata = backend.target_verify_metadata[bs]
        extra = backend.speculative_num_draft_tokens
    else:
        metadata = backend.draft_extend_metadata[bs]
        extra = 0
        queries = metadata.cu_seqlens_q
        if forward_mode.is_draft_extend_v2():
            if spec_info.num_tokens_per_req > 0:
                metadata.max_seq_len_q = spec_info.num_tokens_per_req
            extra = metadata.max_seq_len_q if adds_written else 0
        else:
            accepted = spec_info.num_accept_tokens
    fill(
        Batch(seq_lens, req_pool_indices, bs, extra),
        Lengths(
            keys=metadata.cache_seqlens_int32,
            key_offsets=metadata.cu_seqlens_k,
            query_offsets=queries,
            query_stride=metadata.max_seq_len_q,
            accepted=accepted,
        ),
        PageTables(backend.req_to_token, backend.page_size, metadata.page_table),
    )
    metadata.max_seq_len_k = backend.max_context_len
    backend.forward_metadata = metadata
    backend.forward_metadata_spec_decode_expand = None
