"""Fill a TRTLLM MHA backend's metadata for a graph's replay with one ``fill`` from device lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from .draft_extend import accepted_tokens
from .metadata import Batch, Lengths, PageTables
from .paged import fill

if TYPE_CHECKING:
    import torch

    from .shapes import Mode, SpecInfo, TRTLLMBackend


def fill_trtllm_mha(
    backend: TRTLLMBackend,
    bs: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    forward_mode: Mode,
    spec_info: SpecInfo | None,
) -> None:
    """Fill a TRTLLM MHA backend's metadata for graphs of ``bs`` requests, and make it the current one.

    The arguments are those of upstream's ``_apply_cuda_graph_metadata``, without the host mirror: ``seq_lens`` and
    ``req_pool_indices``, integer, shape [>= bs], on the device. For decode (also a step of a draft), target verify
    and draft-extend v1 and v2, with the buffers that the capture bound. ``patchkit.backends.paged.fill`` documents
    what a page table contains after a request's last page.

    No maximum is read from the device. ``max_seq_len_k`` becomes ``max_context_len``, an upper bound. No graph is
    affected: its kernels get ``max_context_len`` itself, and a replay cannot change a recorded argument. They need
    no more than a bound: trtllm-gen splits its work by it, XQA uses the page table's width times the page size, and
    both read where a request ends from ``cache_seqlens_int32``. ``max_seq_len_q`` stays the captured tokens per
    request, which is the stride of every mode but a v1 draft-extend, for which it is a bound; a v2 draft-extend may
    set its own stride.
    """
    query_offsets = accepted = None
    extra = 0
    if forward_mode.is_decode_or_idle():
        metadata = backend.decode_cuda_graph_metadata[bs]
        if spec_info is not None:
            extra = backend.speculative_step_id + 1
    elif forward_mode.is_target_verify():
        metadata = backend.target_verify_metadata[bs]
        extra = metadata.max_seq_len_q
    else:
        metadata = backend.draft_extend_metadata[bs]
        # The query offsets of the other modes do not change after the capture.
        query_offsets = metadata.cu_seqlens_q
        drafted = cast("SpecInfo", spec_info)
        if not forward_mode.is_draft_extend_v2():
            accepted = accepted_tokens(drafted)
        elif drafted.num_tokens_per_req > 0:
            metadata.max_seq_len_q = drafted.num_tokens_per_req
    swa_pages = metadata.swa_page_table
    full_to_swa = None if swa_pages is None else backend._swa_kv_pool.full_to_swa_index_mapping
    fill(
        Batch(seq_lens, req_pool_indices, bs, extra),
        Lengths(
            keys=metadata.cache_seqlens_int32,
            key_offsets=metadata.cu_seqlens_k,
            query_offsets=query_offsets,
            query_stride=metadata.max_seq_len_q,
            accepted=accepted,
        ),
        PageTables(backend.req_to_token, backend.page_size, metadata.page_table, full_to_swa, swa_pages),
    )
    metadata.max_seq_len_k = backend.max_context_len
    backend.forward_metadata = metadata
