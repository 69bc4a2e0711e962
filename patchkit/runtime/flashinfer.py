"""Plan FlashInfer's graphs of a draft-extend or of a chain's verify as causal prefills over each whole sequence."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .host_plans import HostPlanner, Layout, behind, ends
from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    from .shapes import FlashInfer, Mode

_logger = logging.getLogger(__name__)

_CLASS = "FlashInferAttnBackend"
_GRAPHS, _CHAINS = "patchkit_draft_extend_graphs", "patchkit_chain_graphs"
_OFFSETS = "patchkit_offsets"
_LENGTHS = "pk-flashinfer-lengths"
# Features whose draft-extend this module cannot plan: two wrappers for windows or an encoder, splits pinned for
# deterministic sums, positions that the graph's runner does not copy.
_UNSUPPORTED = (
    "dispatch_reason",
    "use_sliding_window_kv_pool",
    "enable_deterministic",
    "is_multimodal",
    "is_dllm_model",
    "skip_prefill",
)


# The verify of workers whose mirror has exact lengths. DFLASH's is a bound, which may happen to be exact when the plans
# are compared.
_EXACT = "EAGLE_VERIFY"


@dataclass
class _Graphs:
    """The wrappers of one backend's graphs, by number of requests; each request has ``tokens`` tokens.

    ``beyond`` is how many of these its length does not include.
    """

    tokens: int
    beyond: int = 0
    wrappers: dict[int, object] = field(default_factory=dict)


@dataclass
class _Offsets:
    """What is known of the offsets of a draft's steps on the host."""

    same: dict[tuple[int, bool], bool] = field(default_factory=dict)
    """Whether they are the device's, by the number of requests and whether some of these are padding."""
    queued: torch.cuda.Event | None = None
    """Recorded after the copies of the last plans to the GPU."""


def _is_plain(backend: object) -> TypeGuard[FlashInfer]:
    """Return whether a backend is the tree's own class with one wrapper, planned by FlashInfer's version 2 kernels."""
    return (
        type(backend).__name__ == _CLASS
        and getattr(backend, "num_wrappers", None) == 1
        and getattr(backend, "prefill_backend", None) == "fa2"
        and not any(getattr(backend, name, False) for name in _UNSUPPORTED)
    )


def prepare_draft_extend(backend: object, tokens: int) -> bool:
    """Prepare a backend for draft-extend graphs of ``tokens`` tokens per request; return whether that is possible."""
    if not _is_plain(backend):
        return False
    setattr(backend, _GRAPHS, _Graphs(tokens))
    return True


def _graphs(backend: FlashInfer, forward_mode: Mode) -> _Graphs | None:
    """Return the graphs for a forward of this mode, or None if the tree plans it."""
    kinds = ((_GRAPHS, forward_mode.is_draft_extend_v2), (_CHAINS, forward_mode.is_target_verify))
    return next((getattr(backend, name, None) for name, is_its in kinds if is_its()), None)


def _chain_tokens(spec_info: Any) -> int:
    """Return the tokens of each request in the verify of EAGLE's chains, 0 for another one."""
    if type(spec_info).__name__ != "EagleVerifyInput" or spec_info.topk != 1:
        return 0
    tokens: int = spec_info.draft_token_num
    return tokens if tokens == spec_info.spec_steps + 1 else 0


def capture_flashinfer_draft_extend(
    backend: FlashInfer,
    forward_mode: Mode,
    size: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    make_wrapper: Callable[..., object],
    make_metadata: Callable[[list[object], bool, bool], object],
    spec_info: object = None,
) -> bool:
    """Plan the capture of a draft-extend graph of ``size`` requests; return False if the tree has to.

    ``req_pool_indices`` and ``seq_lens``: integer, [>= size], on the device; a draft-extend's lengths include the
    tokens of the step. ``make_wrapper`` and ``make_metadata`` are FlashInfer's and the tree's own classes. With the
    ``spec_info`` of a chain's verify its graph is planned too: causal attention needs no mask. Source: pull request
    28782, pk-flashinfer-lengths.
    """
    if forward_mode.is_target_verify():
        tokens = 0 if disabled(f"{_LENGTHS}/chains") or not _is_plain(backend) else _chain_tokens(spec_info)
        if (
            not tokens
            or backend.__dict__.setdefault(_CHAINS, _Graphs(tokens, beyond=tokens)).tokens != tokens
        ):
            return False
    graphs = _graphs(backend, forward_mode)
    if graphs is None:
        return False
    wrapper = graphs.wrappers[size] = make_wrapper(
        backend.workspace_buffer,
        "NHD",
        use_cuda_graph=True,
        backend=backend.prefill_backend,
        qo_indptr_buf=backend.cuda_graph_qo_indptr[0][: size + 1],
        paged_kv_indptr_buf=backend.kv_indptr[0][: size + 1],
        paged_kv_indices_buf=backend.cuda_graph_kv_indices[0],
        paged_kv_last_page_len_buf=backend.kv_last_page_len[:size],
    )
    rows, lens = req_pool_indices[:size], seq_lens[:size] + graphs.beyond
    total = int(lens.sum())
    _plan(backend, HostPlanner(wrapper, None), rows, lens, mirror=None, total=total, tokens=graphs.tokens)
    backend.forward_metadata = make_metadata([wrapper], False, False)
    return True


def replay_flashinfer_draft_extend(
    backend: FlashInfer,
    forward_mode: Mode,
    size: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    seq_lens_cpu: torch.Tensor | None,
    seq_lens_sum: int | None,
    from_host: bool = False,
) -> bool:
    """Plan the replay of a graph of ``size`` requests whose capture was planned here; return False if the tree has to.

    ``req_pool_indices`` and ``seq_lens`` as in the capture, with padding; ``seq_lens_cpu`` (integer, [>= size],
    CPU) and ``seq_lens_sum`` are the latter's mirror. FlashInfer's planner copies three tensors to the host, which
    waits for each. With ``from_host`` it plans from the mirror instead, if that adds up to the sum and the plan is
    known to be the same. Source: pull requests 28782 and 28854.
    """
    graphs = _graphs(backend, forward_mode)
    if graphs is None or size not in graphs.wrappers:
        return False
    rows, lens, mirror = req_pool_indices[:size], seq_lens[:size], seq_lens_cpu
    mirror = None if mirror is None else mirror[:size]
    if graphs.beyond:
        lens, mirror = lens + graphs.beyond, None if mirror is None else mirror + graphs.beyond
        seq_lens_sum = None if seq_lens_sum is None else seq_lens_sum + graphs.beyond * size
    layout = None
    if seq_lens_sum is None:
        # Without a sum the mirror is not kept, and its tensor may be an earlier batch's.
        mirror, seq_lens_sum = None, int(lens.sum())
    elif (
        from_host
        and not disabled("28782/host-plan")
        and mirror is not None
        and int(mirror.sum()) == seq_lens_sum
    ):
        each = torch.ones(size, dtype=torch.int32)
        # With a page size of 1, the last page is full.
        layout = Layout(ends(each * graphs.tokens), ends(mirror), each)
    planner = HostPlanner(graphs.wrappers[size], layout)
    _plan(backend, planner, rows, lens, mirror=mirror, total=seq_lens_sum, tokens=graphs.tokens)
    return True


def _plan(
    backend: FlashInfer,
    planner: HostPlanner,
    rows: torch.Tensor,
    lens: torch.Tensor,
    *,
    mirror: torch.Tensor | None,
    total: int,
    tokens: int,
) -> None:
    """Let the tree plan an extend by ``tokens`` tokens of each request."""
    backend.indices_updater_prefill.update(
        rows,
        lens,
        mirror,
        total,
        prefix_lens=lens - tokens,
        prefill_wrappers=[planner],
        use_ragged=False,
        encoder_lens=None,
        spec_info=None,
    )


def step_offsets(backend: Any, forward_batch: Any, count: int) -> torch.Tensor:
    """Return where the keys of each branch begin in each step of a draft: int32, [steps, count + 1], on the host.

    ``backend`` has them on the device, in ``kv_indptr``; a copy to the host waits for all that is queued. They follow
    from the mirror of ``forward_batch``, if that adds up; the first of a size, with padding and without, are compared
    with the device's. Source: pk-flashinfer-lengths.
    """
    on_device: torch.Tensor = backend.kv_indptr[:, : count + 1]
    known: _Offsets = backend.__dict__.setdefault(_OFFSETS, _Offsets())
    requests = count // backend.topk
    found = None if disabled(_LENGTHS) else _from_mirror(forward_batch, requests)
    if found is None:
        return on_device.cpu()
    real, positions = found
    steps = torch.arange(1, len(on_device) + 1).unsqueeze(1)
    offsets = torch.zeros(on_device.shape, dtype=on_device.dtype)
    offsets[:, 1:] = positions.repeat_interleave(backend.topk).cumsum(0) + steps * torch.arange(1, count + 1)
    kind = (count, real < requests)
    if not known.same.get(kind):
        exact = on_device.cpu()
        if kind not in known.same:
            known.same[kind] = torch.equal(exact, offsets)
            if not known.same[kind]:
                _logger.warning("FlashInfer's offsets from lengths on the host differ; using the device's.")
        return exact
    # As in HostPlanner: the plans of the last draft must have left the pinned buffers.
    if known.queued is not None:
        known.queued.synchronize()
    return offsets


def noting_plans(backend: Any, plan: Callable[[int, Any], object]) -> Callable[[int, Any], None]:
    """Return ``plan``, which plans a step of a draft, such that it notes when all are queued.

    Source: pk-flashinfer-lengths.
    """
    known: _Offsets = backend.__dict__.setdefault(_OFFSETS, _Offsets())

    def noting(step: int, batch: Any) -> None:
        plan(step, batch)
        # The last step drafts without attention.
        if step + 2 == backend.speculative_num_steps:
            known.queued = behind(backend.kv_indptr.device, known.queued)

    return noting


def _from_mirror(forward_batch: Any, requests: int) -> tuple[int, torch.Tensor] | None:
    """Return how many requests are no padding, and the positions of all; None if the mirror is in doubt."""
    mirror, total = forward_batch.seq_lens_cpu, forward_batch.seq_lens_sum
    drafts = getattr(forward_batch.spec_info, "topk_p", None)
    if mirror is None or total is None or drafts is None or len(mirror) < requests:
        return None
    positions = mirror[:requests].clone()
    # A padded batch keeps the draft's input as it was. Padding has a length, which a request of one token has too.
    real = min(len(drafts), requests)
    if real == requests and int(positions[-1]) <= 1:
        return None
    sums = (int(positions[:real].sum()), int(positions.sum()))
    # It has no position.
    positions[real:] = 0
    return (real, positions) if total in sums else None


def plan_verify_from_host(
    wrapper: object,
    forward_mode: Mode,
    spec_info: object,
    *,
    seq_lens_cpu: torch.Tensor | None,
    seq_lens_sum: int | None,
    size: int,
) -> object:
    """Return the planner to use instead of an MLA ``wrapper`` for a graph of ``size`` requests.

    It plans a target verify of EAGLE from the mirror (``seq_lens_cpu``, integer, [>= size], CPU, without the tokens
    to verify), if that adds up to ``seq_lens_sum`` and the plan is known to be the same. The mirror of other
    workers may be a bound. Source: pull request 27689.
    """
    if disabled("27689"):
        return wrapper
    layout, tokens = None, getattr(spec_info, "draft_token_num", 0)
    exact = getattr(getattr(spec_info, "spec_input_type", None), "name", "") == _EXACT
    if (
        forward_mode.is_target_verify()
        and tokens
        and exact
        and seq_lens_cpu is not None
        and seq_lens_sum is not None
    ):
        layout = _layout(seq_lens_cpu[:size], seq_lens_sum, torch.full((size,), tokens), written=tokens)
    return HostPlanner(wrapper, layout)


def plan_extend_from_host(wrapper: object, forward_batch: Any) -> object:
    """Return the planner to use instead of an MLA ``wrapper`` for an extend.

    It plans a v2 draft-extend without a graph from the mirror, if that adds up to the batch's sum and the plan is
    known to be the same. Source: pull request 27689.
    """
    if disabled("27689"):
        return wrapper
    batch, layout = forward_batch, None
    mirror, total, tokens = batch.seq_lens_cpu, batch.seq_lens_sum, batch.extend_seq_lens_cpu
    if (
        batch.forward_mode.is_draft_extend_v2()
        and mirror is not None
        and total is not None
        and tokens is not None
        and len(tokens) == mirror.shape[0]
    ):
        written = torch.tensor(tokens)
        # An extend of more tokens than the request has is shorter than its nominal length.
        if batch.extend_prefix_lens_cpu == (mirror - written).tolist():
            layout = _layout(mirror, total, written, written=0)
    return HostPlanner(wrapper, layout)


def _layout(mirror: torch.Tensor, total: int, tokens: torch.Tensor, *, written: int) -> Layout | None:
    """Return the layout of requests that write ``tokens``, ``written`` of these beyond the mirror; None if in doubt."""
    if int(mirror.sum()) != total or tokens.shape != mirror.shape:
        return None
    lens = (mirror + written).to(torch.int32)
    return Layout(ends(tokens), ends(lens), lens)
