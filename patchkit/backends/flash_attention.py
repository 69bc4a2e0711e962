"""Fill FlashAttention's metadata for a graph's replay, or for all steps of a draft, with one ``fill``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from .draft_extend import accepted_tokens
from .flash_branches import plan_draft_branches, plan_draft_prefix, plan_verify_branches
from .metadata import Batch, Lengths, PageTables
from .paged import fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from .shapes import (
        FlashAttention,
        FlashAttentionBranches,
        FlashAttentionDraft,
        FlashAttentionStep,
        Mode,
        SpecInfo,
        TreeInput,
        WindowMetadata,
    )

_SHARED = "patchkit_steps"
# The captured sizes of a draft of several branches whose steps share what attends to the prefix.
_PREFIXES = "patchkit_prefixes"
# Set on a step to the size of the graph that is already filled.
_PLANNED = "patchkit_planned"
# In trees whose graphs read from a buffer where a window's keys are written (27617).
_WRITTEN = "swa_out_cache_loc_buf"


class _Shared(NamedTuple):
    """The buffers that all steps' graphs read, a row of lengths and of prefix sums per step, and the captured sizes."""

    keys: torch.Tensor
    offsets: torch.Tensor
    sizes: set[int]


def fill_flash_attention(
    backend: FlashAttention,
    bs: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    forward_mode: Mode,
    spec_info: SpecInfo,
    adds_written: bool = False,
    out_cache_loc: torch.Tensor | None = None,
) -> None:
    """Fill a FlashAttention backend's metadata for graphs of ``bs`` requests, and make it the current one.

    The arguments are those of upstream's replay, without the host mirror: ``seq_lens`` and ``req_pool_indices``,
    integer, shape [>= bs], on the device. For a draft's decode, target verify and draft-extend v1 and v2.
    ``paged.fill`` documents what a page table contains after a request's last page.

    ``max_seq_len_k`` becomes the context length, which no kernel of a speculative step reads. ``max_seq_len_q`` is
    a kernel argument that the capture recorded, and stays the captured tokens per request; a v2 draft-extend may
    set its own stride. With ``adds_written`` the requests of a v2 draft-extend attend to the tokens that it writes
    too, as in a tree that counts these (26512).

    A sliding window's pages are filled too if the capture bound a table for them. ``out_cache_loc`` (integer, shape
    [tokens], on the device), where a batch writes, is translated for that pool if the tree's graphs read it from a
    buffer.

    With a top-k above 1, a draft's decode and a verify also have metadata of their branches, which
    ``flash_branches`` plans; for a decode, from the slots that it writes.
    """
    _translate_written(backend, out_cache_loc)
    if backend.topk > 1 and (forward_mode.is_decode_or_idle() or forward_mode.is_target_verify()):
        branching = cast("FlashAttentionBranches", backend)
        if forward_mode.is_target_verify():
            tree = cast("TreeInput", spec_info)
            metadata, branches = plan_verify_branches(branching, bs, req_pool_indices, seq_lens, tree)
        else:
            slots = cast("torch.Tensor", out_cache_loc)
            planned = getattr(backend, _PLANNED, None) == bs
            setattr(backend, _PLANNED, None)
            metadata, branches = plan_draft_branches(
                branching, bs, req_pool_indices, seq_lens, slots, with_prefix=not planned
            )
        metadata.max_seq_len_k = backend.max_context_len
        backend.forward_metadata, backend.forward_metadata_spec_decode_expand = metadata, branches
        return
    queries = accepted = None
    planned = False
    if forward_mode.is_decode_or_idle():
        metadata = backend.decode_cuda_graph_metadata[bs]
        planned = getattr(backend, _PLANNED, None) == bs
        setattr(backend, _PLANNED, None)
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
            accepted = accepted_tokens(spec_info)
    if not planned:
        fill(
            Batch(seq_lens, req_pool_indices, bs, extra),
            Lengths(
                keys=metadata.cache_seqlens_int32,
                key_offsets=metadata.cu_seqlens_k,
                query_offsets=queries,
                query_stride=metadata.max_seq_len_q,
                accepted=accepted,
            ),
            _tables(backend, metadata),
        )
    metadata.max_seq_len_k = backend.max_context_len
    backend.forward_metadata = metadata
    backend.forward_metadata_spec_decode_expand = None


def _tables(backend: FlashAttention, metadata: WindowMetadata) -> PageTables:
    """Return the page tables of a graph, with that of a sliding window's pool if it has one."""
    swa_pages = metadata.swa_page_table
    full_to_swa = None if swa_pages is None else backend.token_to_kv_pool.full_to_swa_index_mapping
    return PageTables(backend.req_to_token, backend.page_size, metadata.page_table, full_to_swa, swa_pages)


def _translate_written(backend: FlashAttention, out_cache_loc: torch.Tensor | None) -> None:
    """Write the window pool's slots of a batch's writes to the buffer from which graphs read them, if there is one."""
    buffer: torch.Tensor | None = getattr(backend, _WRITTEN, None)
    if buffer is None or out_cache_loc is None:
        return
    count = out_cache_loc.shape[0]
    buffer[:count].copy_(backend.token_to_kv_pool.translate_loc_from_full_to_swa(out_cache_loc))
    # Padding requests write to slot 0, which is not read.
    buffer[count:].zero_()


def _steps(draft: FlashAttentionDraft) -> Sequence[FlashAttentionStep]:
    """Return the backends of all steps but the last, whose tokens need no forward."""
    return draft.attn_backends[: draft.speculative_num_steps - 1]


def share_flash_attention_steps(draft: FlashAttentionDraft, bs: int) -> None:
    """Share one set of buffers among all steps of a draft's graph of ``bs`` requests, before its capture.

    Their page tables differ only in length, and share the first step's. With several branches they share what attends
    to the prefix, and the last step's table of the branches, if no page has tokens of both. Does nothing if a step
    reads the mirror or steps are not consecutive. Source: 31364.
    """
    steps = _steps(draft)
    ids = [step.speculative_step_id for step in steps]
    branches = bool(steps) and steps[0].topk > 1
    if (
        len(steps) < 2
        or (branches and steps[0].page_size > 1)
        or any(step.needs_cpu_seq_lens for step in steps)
        or ids != list(range(ids[0], ids[0] + len(ids)))
    ):
        return
    if branches:
        prefixes = [
            cast("FlashAttentionBranches", step).draft_decode_metadata_topk_normal[bs] for step in steps
        ]
        for own in prefixes[1:]:
            own.cache_seqlens_int32 = prefixes[0].cache_seqlens_int32
            own.cu_seqlens_k, own.page_table = prefixes[0].cu_seqlens_k, prefixes[0].page_table
        tables = [
            cast("FlashAttentionBranches", step).draft_decode_metadata_topk_expand[bs] for step in steps
        ]
        for table in tables[:-1]:
            table.page_table = tables[-1].page_table[:, : table.page_table.shape[1]]
        sizes: set[int] = getattr(draft, _PREFIXES, set())
        setattr(draft, _PREFIXES, sizes | {bs})
        return
    metadata = [step.decode_cuda_graph_metadata[bs] for step in steps]
    shared: _Shared | None = getattr(draft, _SHARED, None)
    # The largest graph is captured first.
    if shared is None or shared.keys.shape[1] < bs:
        keys, offsets = (metadata[0].cache_seqlens_int32.new_zeros(len(steps), bs + more) for more in (0, 1))
        setattr(draft, _SHARED, shared := _Shared(keys, offsets, set()))
    for row, own in enumerate(metadata):
        own.cache_seqlens_int32 = shared.keys[row, :bs].copy_(own.cache_seqlens_int32)
        own.cu_seqlens_k = shared.offsets[row, : bs + 1].copy_(own.cu_seqlens_k)
        own.page_table = metadata[0].page_table
        own.swa_page_table = metadata[0].swa_page_table
    shared.sizes.add(bs)


def fill_flash_attention_steps(
    draft: FlashAttentionDraft, bs: int, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor
) -> None:
    """Fill the shared buffers of all steps for the replay of a draft's graph of ``bs`` requests.

    The arguments are those of ``fill_flash_attention``, which each step calls next. Does nothing for a graph
    without shared buffers. Source: 31364.
    """
    shared: _Shared | None = getattr(draft, _SHARED, None)
    steps = _steps(draft)
    if bs in getattr(draft, _PREFIXES, ()):
        plan_draft_prefix(cast("FlashAttentionBranches", steps[0]), bs, req_pool_indices, seq_lens)
        for step in steps:
            setattr(step, _PLANNED, bs)
        return
    if shared is None or bs not in shared.sizes:
        return
    first = steps[0]
    fill(
        Batch(seq_lens, req_pool_indices, bs, first.speculative_step_id + 1),
        Lengths(keys=shared.keys, key_offsets=shared.offsets, steps=len(steps)),
        _tables(first, first.decode_cuda_graph_metadata[bs]),
    )
    for step in steps:
        setattr(step, _PLANNED, bs)
