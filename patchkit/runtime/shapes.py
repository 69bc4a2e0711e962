"""Protocols of the sglang objects that the runtime uses; attributes that a tree may lack are read with ``getattr``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

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


class Ranks(Protocol):
    """The ranks that share a model's weights."""

    world_size: int

    def broadcast(self, input_: torch.Tensor, src: int) -> object:
        """Overwrite a tensor with that of the rank ``src``."""


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

    def is_decode(self) -> bool:
        """Return whether it is a decode of one token per request."""

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


class GraphTables(Protocol):
    """A paged backend, with the buffers of its draft-extend's graphs by name."""

    draft_extend_metadata: dict[str, torch.Tensor]


class _DraftOwner(Protocol):
    target_worker: Worker


class DraftExtendCapture(Protocol):
    """The runner of a draft-extend's graphs before it captures them."""

    forward_mode: Mode
    eagle_worker: _DraftOwner


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


class _Limit(_Stops, Protocol):
    max_new_tokens: int


class LimitedRequest(Protocol):
    """A request at its token limit, with its checks for stops, which record how it ends."""

    output_ids: Sequence[int]
    finished_reason: object
    finished_len: int | None
    vocab_size: int | None
    sampling_params: _Limit
    tokenizer: _Tokenizer
    _check_str_based_finish: Callable[..., bool]
    _check_token_based_finish: Callable[..., bool]


class RequestWithStates(Protocol):
    """A request with its hidden states and, once it ends, the number of tokens in its answer."""

    hidden_states: Sequence[object]
    finished_len: int | None


class ChunkedRequest(Protocol):
    """A request whose prompt is prefilled in chunks; ``fill_ids`` ends with the current chunk."""

    fill_ids: Sequence[int]
    origin_input_ids: Sequence[int]
    vocab_size: int


class PrefillBatch(Protocol):
    """A forward batch of a prefill: where each request's tokens start and how many there are, shape [batch]."""

    extend_start_loc: torch.Tensor
    extend_seq_lens: torch.Tensor


class MultimodalInput(Protocol):
    """A request's images, and the offset of positions after them."""

    mrope_position_delta: torch.Tensor


class TransferStates(Protocol):
    """The states of a transfer, as sglang numbers them."""

    Failed: int
    Success: int


class CacheSenders(Protocol):
    """The senders of a prefill server's caches, with the state of each request's transfer."""

    request_status: Mapping[int, int]

    def record_failure(self, bootstrap_room: int, failure_reason: str) -> object:
        """Record why a request failed."""

    def update_status(self, bootstrap_room: int, status: int) -> object:
        """Record a transfer's new state."""


class _Address(Protocol):
    local_ip: str
    rank_port: int


class _Socket(Protocol):
    def send_multipart(self, frames: Sequence[bytes], flags: int, /) -> object:
        """Send a message."""


class CacheReceiver(Protocol):
    """The receiver of a request's cache on a decode server."""

    bootstrap_room: int
    kv_mgr: _Address

    def _connect_to_bootstrap_server(
        self, server: object
    ) -> tuple[_Socket, AbstractContextManager[object]]: ...


class _Drafts(Protocol):
    speculative_num_draft_tokens: int


class ResultProcessor(Protocol):
    """sglang's processor of a forward's results, with the draft worker."""

    draft_worker: _Drafts


class DraftExtendBatch(ModeBatch, Protocol):
    """A forward batch that may be a draft-extend, with its ``spec_info``."""

    batch_size: int
    seq_lens: torch.Tensor
    spec_info: Any
    next_token_logits_buffer: torch.Tensor | None
    global_num_tokens_gpu: torch.Tensor | None


class LogitsMetadata(Protocol):
    """The logits processor's input for a batch."""

    draft_extend_select_index: torch.Tensor | None


class ServerRunner(Protocol):
    """A model's runner, with the server's arguments."""

    server_args: object


class DraftExtendRunner(Protocol):
    """The runner of the draft-extend's graphs: the number of requests of the batch, and of its graph."""

    model_runner: ServerRunner
    capture_bs: Sequence[int]
    raw_bs: int
    bs: int


class Algorithm(Protocol):
    """A server's speculative algorithm."""

    def is_none(self) -> bool:
        """Return whether the server does not speculate."""
        ...


class _ModelRunner(Protocol):
    attn_backend: object
    spec_algorithm: Algorithm
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


class Located(Protocol):
    """Rows of a future map that is a circular buffer."""

    indices: torch.Tensor


class FutureMap(Protocol):
    """The map that relays a step's results to the next; in later trees with ``stash``, which takes rows and results."""

    def store_to_map_for_new_batch(self, at: object, results: object, /) -> object:
        """Write results to their rows."""


class StepResult(Protocol):
    """A step's result; the host reads its tokens and, with speculation, accepted lengths."""

    next_token_ids: torch.Tensor
    accept_lens: torch.Tensor | None


class ExtendInput(Protocol):
    """A forward batch of an extend, or of a draft's."""

    forward_mode: Mode
    batch_size: int
    input_ids: torch.Tensor
    extend_num_tokens: int


class _StateCaches(Protocol):
    conv: Sequence[torch.Tensor]
    temporal: torch.Tensor
    intermediate_ssm: torch.Tensor
    intermediate_conv_window: Sequence[torch.Tensor]


class _StatePool(Protocol):
    def get_speculative_mamba2_params_all_layers(self) -> _StateCaches:
        """Return the states of all layers, and those after each token of a verify."""


class _StateMetadata(Protocol):
    mamba_cache_indices: torch.Tensor


class LinearBackend(Protocol):
    """sglang's linear attention backend, with its buffers by graph size."""

    forward_metadata: _StateMetadata
    req_to_token_pool: _StatePool
    state_indices_list: Sequence[torch.Tensor]


class HybridLinear(Protocol):
    """The wrapper of full and linear attention."""

    linear_attn_backend: LinearBackend


class TrackedBatch(Protocol):
    """A batch whose states the prefix cache may track."""

    seq_lens: torch.Tensor
    mamba_track_indices: torch.Tensor | None


class TrackingArgs(Protocol):
    """A server's arguments, with the interval at which states are tracked."""

    mamba_track_interval: int


class FlashMLABatch(ModeBatch, Protocol):
    """A forward batch that FlashMLA plans, with its lengths on the device and perhaps on the host."""

    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor | None
    spec_info: object


class FlashMLA(Protocol):
    """sglang's FlashMLA backend."""

    num_draft_tokens: int
    req_to_token: torch.Tensor
    cuda_graph_kv_indices: torch.Tensor

    def init_forward_metadata(self, batch: FlashMLABatch, /) -> object:
        """Plan a batch."""


class StepBatch(Protocol):
    """A batch that is drafted and verified, its lengths and rows of the pool on the device."""

    seq_lens: torch.Tensor
    req_pool_indices: torch.Tensor


class StepInput(Protocol):
    """A forward's batch, its tokens and positions on the device."""

    input_ids: torch.Tensor
    positions: torch.Tensor


class LensMap(Protocol):
    """A future map of later trees, which relays lengths on their own."""

    new_seq_lens_buf: torch.Tensor
