"""Plan FlashInfer's v2 draft-extend for its CUDA graph, as a causal prefill over each request's whole sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .host_plans import HostPlanner, Layout, ends
from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    from .shapes import FlashInfer, Mode

_CLASS = "FlashInferAttnBackend"
_GRAPHS = "patchkit_draft_extend_graphs"
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
    """The wrappers of one backend's graphs, by number of requests; each request has ``tokens`` tokens."""

    tokens: int
    wrappers: dict[int, object] = field(default_factory=dict)


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
    graphs: _Graphs | None = getattr(backend, _GRAPHS, None)
    return graphs if forward_mode.is_draft_extend_v2() else None


def capture_flashinfer_draft_extend(
    backend: FlashInfer,
    forward_mode: Mode,
    size: int,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    make_wrapper: Callable[..., object],
    make_metadata: Callable[[list[object], bool, bool], object],
) -> bool:
    """Plan the capture of a draft-extend graph of ``size`` requests; return False if the tree has to.

    ``req_pool_indices`` and ``seq_lens``: integer, [>= size], on the device; lengths include the tokens of the
    step. ``make_wrapper`` and ``make_metadata`` are FlashInfer's and the tree's own classes. Source: pull request
    28782.
    """
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
    rows, lens = req_pool_indices[:size], seq_lens[:size]
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
    """Plan the replay of a draft-extend graph of ``size`` requests; return False if the tree has to.

    ``req_pool_indices`` and ``seq_lens`` as in the capture, with padding; ``seq_lens_cpu`` (integer, [>= size],
    CPU) and ``seq_lens_sum`` are the latter's mirror. FlashInfer's planner copies three tensors to the host, which
    waits for each. With ``from_host`` it plans from the mirror instead, if that adds up to the sum and the plan is
    known to be the same. Source: pull requests 28782 and 28854.
    """
    graphs = _graphs(backend, forward_mode)
    if graphs is None:
        return False
    rows, lens = req_pool_indices[:size], seq_lens[:size]
    mirror = None if seq_lens_cpu is None else seq_lens_cpu[:size]
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
