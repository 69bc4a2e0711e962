"""Protocols of the sglang objects that the runtime uses; attributes that a tree may lack are read with ``getattr``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

_Side = TypeVar("_Side")


class _Runner(Protocol):
    attn_backend: object


class Worker(Protocol):
    """A worker with a model, such as the target's."""

    model_runner: _Runner


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


class VerifyBatch(Protocol):
    """A batch before its verify: ``seq_lens`` of shape [batch], on the device."""

    seq_lens: torch.Tensor
    seq_lens_sum: int | None


class MirroredBatch(Protocol):
    """A forward batch with its lengths on the device and, if the mirror is kept, on the host."""

    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor | None


class _Request(Protocol):
    seqlen: int


class DecodeBatch(Protocol):
    """A scheduler's batch: its requests, and the mirror if it is kept."""

    seq_lens_cpu: torch.Tensor | None
    reqs: Iterable[_Request]


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


class DraftExtendBatch(ModeBatch, Protocol):
    """A forward batch that may be a draft-extend, with its ``spec_info``."""

    batch_size: int
    seq_lens: torch.Tensor
    spec_info: Any
    next_token_logits_buffer: torch.Tensor | None
    global_num_tokens_gpu: torch.Tensor | None


class ServerRunner(Protocol):
    """A model's runner, with the server's arguments."""

    server_args: object


class DraftExtendRunner(Protocol):
    """The runner of the draft-extend's graphs: the number of requests of the batch, and of its graph."""

    model_runner: ServerRunner
    capture_bs: Sequence[int]
    raw_bs: int
    bs: int


class Located(Protocol):
    """Rows of a future map that is a circular buffer."""

    indices: torch.Tensor


class FutureMap(Protocol):
    """The map that relays a step's results to the next; in later trees with ``stash``, which takes rows and results."""

    def store_to_map_for_new_batch(self, at: object, results: object, /) -> object:
        """Write results to their rows."""


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
