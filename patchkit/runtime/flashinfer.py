"""FlashInfer's v2 draft-extend is planned for its CUDA graph: a causal prefill over each request's whole sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from .host_plans import HostPlanner, Layout, ends
from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    from .shapes import FlashInfer, Mode, PlannedExtend

_CLASS = "FlashInferAttnBackend"
_GRAPHS = "patchkit_draft_extend_graphs"
# What a backend has where its draft-extend is planned in a way that this module does not know: two wrappers for
# windows or an encoder, splits pinned for deterministic sums, positions that the graph's runner does not copy.
_UNLIKE = (
    "dispatch_reason",
    "use_sliding_window_kv_pool",
    "enable_deterministic",
    "is_multimodal",
    "is_dllm_model",
    "skip_prefill",
)


# The verify of workers whose mirror is known to be the lengths themselves. DFLASH hands on a bound, which may well be
# the lengths when the plans are compared.
_EXACT = "EAGLE_VERIFY"


@dataclass
class _Graphs:
    """The graphs' wrappers of one backend, by their number of requests, each of ``tokens`` tokens a request."""

    tokens: int
    wrappers: dict[int, object] = field(default_factory=dict)


def _is_plain(backend: object) -> TypeGuard[FlashInfer]:
    """Tell whether a backend is the tree's own class with one wrapper, planned by the kernels of version 2."""
    return (
        type(backend).__name__ == _CLASS
        and getattr(backend, "num_wrappers", None) == 1
        and getattr(backend, "prefill_backend", None) == "fa2"
        and not any(getattr(backend, name, False) for name in _UNLIKE)
    )


def prepare_draft_extend(backend: object, tokens: int) -> bool:
    """Let a backend take draft-extend graphs of ``tokens`` tokens a request, and tell whether it does."""
    if not _is_plain(backend):
        return False
    setattr(backend, _GRAPHS, _Graphs(tokens))
    return True


def _graphs(backend: FlashInfer, forward_mode: Mode) -> _Graphs | None:
    """Return the graphs that a forward of this mode is of, None where it is the tree's own affair."""
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
    """Plan the capture of a draft-extend graph of ``size`` requests, and tell whether that was done.

    ``req_pool_indices`` and ``seq_lens``: integer, [>= size], on the device, the latter with what the step writes.
    ``make_wrapper`` and ``make_metadata`` are FlashInfer's and the tree's own classes. Source: pull request 28782.
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
    """Plan the replay of a draft-extend graph of ``size`` requests, and tell whether that was done.

    ``req_pool_indices`` and ``seq_lens`` as in the capture, padding included; ``seq_lens_cpu`` (integer, [>= size],
    CPU) and ``seq_lens_sum`` mirror the latter. FlashInfer copies the layout of its queries and keys to the host to
    plan, three times, and the host waits for each. ``from_host`` has it planned from the mirror, if that adds up to
    the sum and the plan is known to be the same. Source: pull requests 28782 and 28854.
    """
    graphs = _graphs(backend, forward_mode)
    if graphs is None:
        return False
    rows, lens = req_pool_indices[:size], seq_lens[:size]
    mirror = None if seq_lens_cpu is None else seq_lens_cpu[:size]
    layout = None
    if seq_lens_sum is None:
        # Nobody keeps the mirror, and what is handed on may be an earlier batch's.
        mirror, seq_lens_sum = None, int(lens.sum())
    elif from_host and not disabled("28854") and mirror is not None and int(mirror.sum()) == seq_lens_sum:
        each = torch.ones(size, dtype=torch.int32)
        # A page is a token, so that the last one is full.
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
    """Have the tree plan an extend by ``tokens`` tokens of every request."""
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
    """Return what plans in a multi-latent ``wrapper``'s place for a graph of ``size`` requests.

    A target verify of EAGLE's is planned from the mirror (``seq_lens_cpu``, integer, [>= size], CPU, without what is
    verified), if that adds up to ``seq_lens_sum`` and the plan is known to be the same. Another worker's mirror may be
    a bound of its lengths. Source: pull request 27689.
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


def plan_extend_from_host(wrapper: object, forward_batch: PlannedExtend) -> object:
    """Return what plans in a multi-latent ``wrapper``'s place for an extend.

    A v2 draft-extend without a graph is planned from the mirror, if that adds up to the batch's sum and the plan is
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
        # An extend that starts before its request does is shorter than it says.
        if batch.extend_prefix_lens_cpu == (mirror - written).tolist():
            layout = _layout(mirror, total, written, written=0)
    return HostPlanner(wrapper, layout)


def _layout(mirror: torch.Tensor, total: int, tokens: torch.Tensor, *, written: int) -> Layout | None:
    """Return the layout of requests that write ``tokens``, ``written`` beyond their length; None if it is unlikely."""
    if int(mirror.sum()) != total or tokens.shape != mirror.shape:
        return None
    lens = (mirror + written).to(torch.int32)
    return Layout(ends(tokens), ends(lens), lens)
