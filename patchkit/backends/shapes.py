"""Protocols of sglang's attention backends, their graph metadata and their batches, as the fills use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

_Step = TypeVar("_Step")
_Metadata = TypeVar("_Metadata", bound="Metadata")


class Mode(Protocol):
    """A forward's mode."""

    def is_decode_or_idle(self) -> bool:
        """Return whether each request gets one token, or the batch is idle."""

    def is_target_verify(self) -> bool:
        """Return whether the target verifies a draft."""

    def is_draft_extend_v2(self) -> bool:
        """Return whether a draft extends each request by the same number of tokens."""


class SpecInfo(Protocol):
    """A batch's speculative input: tokens per request, not positive if unset."""

    num_tokens_per_req: int


class TreeInput(Protocol):
    """A verify's tree: a position for each token of the batch, and the mask."""

    positions: torch.Tensor
    custom_mask: torch.Tensor


class QueryMetadata(Protocol):
    """The queries' part of a graph's metadata."""

    max_seq_len_q: int
    cu_seqlens_q: torch.Tensor


class Metadata(QueryMetadata, Protocol):
    """The graph metadata of a paged backend."""

    max_seq_len_k: int
    cache_seqlens_int32: torch.Tensor
    cu_seqlens_k: torch.Tensor
    page_table: torch.Tensor


class WindowMetadata(Metadata, Protocol):
    """The same with the pages of a sliding-window pool, None without one."""

    swa_page_table: torch.Tensor | None


class _PagedBackend(Protocol[_Metadata]):
    """A paged backend, with its metadata by graph size."""

    forward_metadata: _Metadata
    max_context_len: int
    page_size: int
    req_to_token: torch.Tensor
    speculative_step_id: int
    decode_cuda_graph_metadata: Mapping[int, _Metadata]
    target_verify_metadata: Mapping[int, _Metadata]
    draft_extend_metadata: Mapping[int, _Metadata]


class _WindowPool(Protocol):
    full_to_swa_index_mapping: torch.Tensor

    def translate_loc_from_full_to_swa(self, kv_indices: torch.Tensor, /) -> torch.Tensor:
        """Return the window pool's slots for slots of the full pool."""


class FlashAttention(_PagedBackend[WindowMetadata], Protocol):
    """sglang's FlashAttention backend; the pool is read only if the metadata has a window's pages."""

    forward_metadata_spec_decode_expand: Metadata | None
    speculative_num_draft_tokens: int
    token_to_kv_pool: _WindowPool
    topk: int


class FlashAttentionBranches(_PagedBackend[WindowMetadata], Protocol):
    """The same with a top-k above 1, with metadata for the prefix and for each token's own branch."""

    topk: int
    speculative_num_steps: int
    speculative_num_draft_tokens: int
    draft_decode_metadata_topk_normal: Mapping[int, WindowMetadata]
    draft_decode_metadata_topk_expand: Mapping[int, Metadata]
    target_verify_metadata_topk_normal: Mapping[int, WindowMetadata]
    target_verify_metadata_topk_expand: Mapping[int, Metadata]


class FlashAttentionStep(FlashAttention, Protocol):
    """The same as a draft's step, with the flag whether it reads the mirror."""

    needs_cpu_seq_lens: bool


class FlashAttentionDraft(Protocol):
    """sglang's FlashAttention backend of a draft of several steps, the last of which is not used."""

    speculative_num_steps: int
    attn_backends: Sequence[FlashAttentionStep]


class TRTLLMBackend(_PagedBackend[WindowMetadata], Protocol):
    """sglang's TRTLLM MHA backend; the pool is read only if the metadata has a window's pages."""

    _swa_kv_pool: _WindowPool


class StepBatch(Protocol):
    """A forward batch of a draft's decode."""

    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor | None
    spec_info: object


class EagerStep(Protocol):
    """A step's backend that plans without a graph."""

    def init_forward_metadata(self, forward_batch: object, /) -> object:
        """Plan the step."""


class ReplayedStep(Protocol):
    """A step's backend that plans a graph's replay from separate arguments."""

    def init_forward_metadata_replay_cuda_graph(
        self,
        bs: int,
        req_pool_indices: torch.Tensor,
        seq_lens: torch.Tensor,
        /,
        *,
        seq_lens_sum: int | None,
        encoder_lens: torch.Tensor | None,
        forward_mode: object,
        spec_info: object,
        seq_lens_cpu: torch.Tensor | None,
    ) -> object:
        """Plan the step for graphs of ``bs`` requests."""


class OutGraphStep(Protocol):
    """A step's backend that plans outside of the graph, from a view of the batch."""

    def init_forward_metadata_out_graph(self, step_view: object, /) -> object:
        """Plan the step."""


class MultiStepDraft(Protocol[_Step]):
    """A draft's backend, with one backend per step."""

    speculative_num_steps: int
    attn_backends: Sequence[_Step]
