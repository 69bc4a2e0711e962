"""Protocols of the sglang objects that the runtime uses; attributes that a tree may lack are read with ``getattr``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

_Side = TypeVar("_Side")


class _Runner(Protocol):
    attn_backend: object


class Worker(Protocol):
    """A worker with a model, such as the target's."""

    model_runner: _Runner


class DisaggregatedArgs(Protocol):
    """A server's arguments, with its role: prefill, decode or both."""

    disaggregation_mode: str


class _SpeculativeArgs(Protocol):
    speculative_attention_mode: str


class _RunnerOfServer(Protocol):
    server_args: _SpeculativeArgs


class Hybrid(Protocol[_Side]):
    """An attention backend of two sides; the server's arguments say which one verifies."""

    model_runner: _RunnerOfServer
    prefill_backend: _Side
    decode_backend: _Side


class VerifyBackend(Protocol):
    """A backend, or the side of a hybrid, that verifies a draft."""

    max_context_len: int

    def get_verify_buffers_to_fill_after_draft(self) -> Sequence[torch.Tensor | None]:
        """Return its preallocated buffers for the tree mask and the positions."""


class FlashAttention(Protocol):
    """sglang's FlashAttention backend."""

    topk: int


class FlashAttentionPlans(Protocol):
    """A FlashAttention-3 backend with the library's planner."""

    forward_metadata: object
    _get_scheduler_metadata: Callable[..., torch.Tensor]


class Layer(Protocol):
    """An attention layer of a model."""

    layer_id: int


class Mode(Protocol):
    """A forward's mode."""

    def is_draft_extend_v2(self) -> bool:
        """Return whether it is a draft-extend of the v2 worker."""

    def is_target_verify(self) -> bool:
        """Return whether it is a target's verify."""


class ModeBatch(Protocol):
    """A forward's batch."""

    forward_mode: Mode


class SparseAttention(Protocol):
    """sglang's backend for DeepSeek Sparse Attention."""

    topk: int


class _Step(Protocol):
    needs_cpu_seq_lens: bool


class MultiStepDraft(Protocol):
    """A draft's backend, with one backend per step."""

    attn_backends: Iterable[_Step]


class TritonBackend(Protocol):
    """sglang's Triton backend, with the buffers that its graphs read."""

    sliding_window_size: int | None
    num_draft_tokens: int
    req_to_token: torch.Tensor
    kv_indptr: torch.Tensor
    qo_indptr: torch.Tensor
    mask_indptr: torch.Tensor
    cuda_graph_kv_indices: torch.Tensor
    cuda_graph_custom_mask: torch.Tensor


class PrefillPlanner(Protocol):
    """sglang's object that fills and plans a prefill's wrappers."""

    def update(
        self,
        req_pool_indices: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor | None,
        seq_lens_sum: int,
        **named: object,
    ) -> object:
        """Plan ``prefill_wrappers`` for requests of these lengths."""


class FlashInfer(Protocol):
    """sglang's FlashInfer backend, with the buffers that its graphs read."""

    prefill_backend: str
    workspace_buffer: torch.Tensor
    cuda_graph_qo_indptr: Sequence[torch.Tensor]
    kv_indptr: Sequence[torch.Tensor]
    cuda_graph_kv_indices: Sequence[torch.Tensor]
    kv_last_page_len: torch.Tensor
    indices_updater_prefill: PrefillPlanner
    forward_metadata: object


class PlannedExtend(ModeBatch, Protocol):
    """A forward batch of an extend, with its values on the host."""

    seq_lens_cpu: torch.Tensor | None
    seq_lens_sum: int | None
    extend_seq_lens_cpu: list[int] | None
    extend_prefix_lens_cpu: list[int] | None


class _DraftArgs(Protocol):
    speculative_token_map: str | None


class DraftWorker(Protocol):
    """A v2 draft worker, with the backend of its draft-extend."""

    server_args: _DraftArgs
    draft_extend_attn_backend: object
    speculative_num_draft_tokens: int


class SizedBatch(Protocol):
    """A batch whose total length may be unknown."""

    batch_size: int
    seq_lens_sum: int | None


class VerifyBatch(Protocol):
    """A batch before its verify: ``seq_lens`` of shape [batch], on the device."""

    seq_lens: torch.Tensor
    seq_lens_sum: int | None


class ExtendBatch(Protocol):
    """A forward batch of an extend: ``extend_seq_lens`` of shape [batch], on the device, None if it is idle."""

    batch_size: int
    extend_num_tokens: int
    extend_seq_lens: torch.Tensor | None
    extend_seq_lens_cpu: list[int] | None


class MirroredBatch(Protocol):
    """A forward batch with its lengths on the device and, if the mirror is kept, on the host."""

    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor | None


class SparseBatch(ExtendBatch, MirroredBatch, SizedBatch, Protocol):
    """A forward batch that DeepSeek Sparse Attention plans on the host."""


class _Request(Protocol):
    seqlen: int


class DecodeBatch(Protocol):
    """A scheduler's batch: its requests, and the mirror if it is kept."""

    seq_lens_cpu: torch.Tensor | None
    reqs: Iterable[_Request]


class Event(Protocol):
    """A device's event."""

    def synchronize(self) -> object:
        """Block the host until the event."""

    def wait(self) -> object:
        """Make the current stream wait."""


class PlanStream(Protocol):
    """The stream on which a speculative worker plans ahead."""

    device: torch.device

    def wait_stream(self, stream: torch.Stream, /) -> object:
        """Make this stream wait for another one."""


class _Stops(Protocol):
    stop_strs: Sequence[str]
    stop_regex_strs: Sequence[str]
    stop_str_max_len: int
    stop_regex_max_len: int


class _Tokenizer(Protocol):
    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of tokens."""


class GeneratedRequest(Protocol):
    """A request with its tokens so far and, once it ends, the number of them in its answer."""

    output_ids: Sequence[int]
    finished_len: int
    vocab_size: int
    sampling_params: _Stops
    tokenizer: _Tokenizer


class RequestWithStates(Protocol):
    """A request with its hidden states and, once it ends, the number of tokens in its answer."""

    hidden_states: Sequence[object]
    finished_len: int | None


class ChunkedRequest(Protocol):
    """A request whose prompt is prefilled in chunks; ``fill_ids`` ends with the current chunk."""

    fill_ids: Sequence[int]
    origin_input_ids: Sequence[int]
    vocab_size: int


class _Drafts(Protocol):
    speculative_num_draft_tokens: int


class ResultProcessor(Protocol):
    """sglang's processor of a forward's results, with the draft worker."""

    draft_worker: _Drafts
