"""What the runtime needs of sglang's objects; what a tree may lack is asked for by name, of an ``object``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

_Side = TypeVar("_Side")


class _Runner(Protocol):
    attn_backend: object


class Worker(Protocol):
    """The target's worker, or another with a model of its own."""

    model_runner: _Runner


class DisaggregatedArgs(Protocol):
    """A server's arguments, which say whether it only prefills, only decodes, or does both."""

    disaggregation_mode: str


class _SpeculativeArgs(Protocol):
    speculative_attention_mode: str


class _RunnerOfServer(Protocol):
    server_args: _SpeculativeArgs


class Hybrid(Protocol[_Side]):
    """An attention backend of two sides, of which the server's arguments say which one verifies."""

    model_runner: _RunnerOfServer
    prefill_backend: _Side
    decode_backend: _Side


class VerifyBackend(Protocol):
    """A backend, or the side of a hybrid, that verifies what a draft wrote."""

    max_context_len: int

    def get_verify_buffers_to_fill_after_draft(self) -> Sequence[torch.Tensor | None]:
        """Return what it preallocated for the tree mask and for positions."""


class FlashAttention(Protocol):
    """sglang's FlashAttention backend."""

    topk: int


class FlashAttentionPlans(Protocol):
    """A FlashAttention-3 backend that keeps the library's planner."""

    forward_metadata: object
    _get_scheduler_metadata: Callable[..., torch.Tensor]


class Layer(Protocol):
    """An attention layer of a model."""

    layer_id: int


class Mode(Protocol):
    """A forward's mode."""

    def is_decode(self) -> bool:
        """Tell whether it is a decode of one token a request."""

    def is_draft_extend_v2(self) -> bool:
        """Tell whether it is a draft-extend of the v2 worker."""

    def is_target_verify(self) -> bool:
        """Tell whether it is a target's verify."""


class ModeBatch(Protocol):
    """A forward's batch."""

    forward_mode: Mode


class SparseAttention(Protocol):
    """sglang's backend of DeepSeek Sparse Attention."""

    topk: int


class _Step(Protocol):
    needs_cpu_seq_lens: bool


class MultiStepDraft(Protocol):
    """A draft's backend, with one for each of its steps."""

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
    """What fills and plans a prefill's wrappers."""

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
    """A forward batch of an extend, with what the host knows of it."""

    seq_lens_cpu: torch.Tensor | None
    seq_lens_sum: int | None
    extend_seq_lens_cpu: list[int] | None
    extend_prefix_lens_cpu: list[int] | None


class _DraftArgs(Protocol):
    speculative_token_map: str | None


class DraftWorker(Protocol):
    """A v2 worker that drafts, with the backend of its draft-extend."""

    server_args: _DraftArgs
    draft_extend_attn_backend: object
    speculative_num_draft_tokens: int


class SizedBatch(Protocol):
    """A batch whose total length may be unknown."""

    batch_size: int
    seq_lens_sum: int | None


class VerifyBatch(Protocol):
    """A batch that is about to be verified: ``seq_lens`` of shape [batch], on the device."""

    seq_lens: torch.Tensor
    seq_lens_sum: int | None


class ExtendBatch(Protocol):
    """A forward batch of an extend: ``extend_seq_lens`` of shape [batch], on the device, None in an idle one."""

    batch_size: int
    extend_num_tokens: int
    extend_seq_lens: torch.Tensor | None
    extend_seq_lens_cpu: list[int] | None


class MirroredBatch(Protocol):
    """A forward batch with its lengths on the device and, where the mirror is kept, on the host."""

    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor | None


class SparseBatch(ExtendBatch, MirroredBatch, SizedBatch, Protocol):
    """A forward batch that DeepSeek Sparse Attention plans on the host."""


class _Request(Protocol):
    seqlen: int


class DecodeBatch(Protocol):
    """A scheduler's batch: its requests, and the mirror where it is kept."""

    seq_lens_cpu: torch.Tensor | None
    reqs: Iterable[_Request]


class Event(Protocol):
    """A device's event."""

    def synchronize(self) -> object:
        """Have the host wait."""

    def wait(self) -> object:
        """Have the current stream wait."""


class PlanStream(Protocol):
    """The stream on which a speculative worker plans ahead."""

    device: torch.device

    def wait_stream(self, stream: torch.Stream, /) -> object:
        """Have this stream wait for another one."""


class _Stops(Protocol):
    stop_strs: Sequence[str]
    stop_regex_strs: Sequence[str]
    stop_str_max_len: int
    stop_regex_max_len: int


class _Tokenizer(Protocol):
    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of tokens."""


class GeneratedRequest(Protocol):
    """A request with the tokens that it has so far, and, once it ends, how many of them its answer has."""

    output_ids: Sequence[int]
    finished_len: int
    vocab_size: int
    sampling_params: _Stops
    tokenizer: _Tokenizer


class RequestWithStates(Protocol):
    """A request with its hidden states, and, once it ends, how many tokens its answer has."""

    hidden_states: Sequence[object]
    finished_len: int | None


class ChunkedRequest(Protocol):
    """A request of which a chunk of the prompt, or the last of it, is prefilled: ``fill_ids`` ends where that ends."""

    fill_ids: Sequence[int]
    origin_input_ids: Sequence[int]
    vocab_size: int


class _Drafts(Protocol):
    speculative_num_draft_tokens: int


class ResultProcessor(Protocol):
    """What takes a forward's results apart, with the worker that drafts."""

    draft_worker: _Drafts


class DraftExtendBatch(ModeBatch, Protocol):
    """A forward batch that may be a draft-extend, with what goes with it in ``spec_info``."""

    batch_size: int
    seq_lens: torch.Tensor
    spec_info: Any
    next_token_logits_buffer: torch.Tensor | None
    global_num_tokens_gpu: torch.Tensor | None


class LogitsMetadata(Protocol):
    """What the logits processor needs of a batch."""

    draft_extend_select_index: torch.Tensor | None


class ServerRunner(Protocol):
    """A model's runner, with the server's arguments."""

    server_args: object


class DraftExtendRunner(Protocol):
    """The runner of the draft-extend's graphs: requests of a batch, and as many as its graph has."""

    model_runner: ServerRunner
    capture_bs: Sequence[int]
    raw_bs: int
    bs: int


class _Algorithm(Protocol):
    def is_none(self) -> bool: ...


class _ModelRunner(Protocol):
    attn_backend: object
    spec_algorithm: _Algorithm
    token_to_kv_pool: object


class GraphRunner(Protocol):
    """A runner of graphs."""

    model_runner: _ModelRunner


class ReplayedBatch(ModeBatch, Protocol):
    """A forward batch that a graph is about to run."""

    seq_lens: torch.Tensor


class OverlapScheduler(Protocol):
    """A scheduler that prepares a batch on one stream while another one's forward runs on the other."""

    schedule_stream: torch.cuda.Stream
    forward_stream: torch.cuda.Stream


class FlashMLABatch(ModeBatch, Protocol):
    """A forward batch that FlashMLA plans, with its lengths on the device and perhaps on the host."""

    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor | None


class FlashMLA(Protocol):
    """sglang's FlashMLA backend."""

    num_draft_tokens: int
    max_context_len: int
    cuda_graph_kv_indices: torch.Tensor

    def init_forward_metadata(self, batch: FlashMLABatch, /) -> object:
        """Plan a batch."""
