"""FlashInfer's v2 draft-extend is planned for its CUDA graph: a causal prefill over each request's whole sequence."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch

from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeGuard

    from .shapes import FlashInfer, Mode

_logger = logging.getLogger(__name__)

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


class _Wrapper(Protocol):
    """FlashInfer's wrapper of a prefill over a paged cache."""

    def begin_forward(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        *given: object,
        **named: object,
    ) -> object: ...


@dataclass
class _Graph:
    """A captured graph's wrapper, and what its plans have come to."""

    wrapper: _Wrapper
    starts: torch.Tensor
    """Where each request's queries start, int32, shape [requests + 1], on the host."""
    read: tuple[torch.Tensor, ...]
    """What the kernels read of the layout: starts of queries and of keys, lengths of last pages; on the device."""
    by_host: bool | None = None
    """Whether a plan by the host's lengths is the ordinary one; None until both were made and compared."""
    queued: torch.cuda.Event | None = None
    """Behind what the last plan sent to the GPU."""


@dataclass
class _Graphs:
    """The graphs of one backend, by their number of requests, each of ``tokens`` tokens a request."""

    tokens: int
    by_size: dict[int, _Graph] = field(default_factory=dict)


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
    make_wrapper: Callable[..., _Wrapper],
    make_metadata: Callable[[list[_Wrapper], bool, bool], object],
) -> bool:
    """Plan the capture of a draft-extend graph of ``size`` requests, and tell whether that was done.

    ``req_pool_indices`` and ``seq_lens``: integer, [>= size], on the device, the latter with what the step writes.
    ``make_wrapper`` and ``make_metadata`` are FlashInfer's and the tree's own classes. Source: pull request 28782.
    """
    graphs = _graphs(backend, forward_mode)
    if graphs is None:
        return False
    queries, keys = backend.cuda_graph_qo_indptr[0][: size + 1], backend.kv_indptr[0][: size + 1]
    last_pages = backend.kv_last_page_len[:size]
    wrapper = make_wrapper(
        backend.workspace_buffer,
        "NHD",
        use_cuda_graph=True,
        backend=backend.prefill_backend,
        qo_indptr_buf=queries,
        paged_kv_indptr_buf=keys,
        paged_kv_indices_buf=backend.cuda_graph_kv_indices[0],
        paged_kv_last_page_len_buf=last_pages,
    )
    starts = torch.arange(size + 1, dtype=torch.int32) * graphs.tokens
    graph = graphs.by_size[size] = _Graph(wrapper, starts, (queries, keys, last_pages))
    rows, lens = req_pool_indices[:size], seq_lens[:size]
    total = int(lens.sum())
    _plan(backend, _Planner(graph), rows, lens, mirror=None, total=total, tokens=graphs.tokens)
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
    graph, lens = graphs.by_size[size], seq_lens[:size]
    mirror = None if seq_lens_cpu is None else seq_lens_cpu[:size]
    known = False
    if seq_lens_sum is None:
        # Nobody keeps the mirror, and what is handed on may be an earlier batch's.
        mirror, seq_lens_sum = None, int(lens.sum())
    elif from_host and not disabled("28854") and mirror is not None:
        known = int(mirror.sum()) == seq_lens_sum
    planner = _Planner(graph, mirror if known else None)
    rows = req_pool_indices[:size]
    _plan(backend, planner, rows, lens, mirror=mirror, total=seq_lens_sum, tokens=graphs.tokens)
    return True


def _plan(
    backend: FlashInfer,
    planner: _Planner,
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


class _Planner:
    """Stands for a graph's wrapper in the tree's hands, and plans by the host's lengths where these are known."""

    def __init__(self, graph: _Graph, mirror: torch.Tensor | None = None) -> None:
        self._graph, self._mirror = graph, mirror

    def __getattr__(self, name: str) -> object:
        return getattr(self._graph.wrapper, name)

    def begin_forward(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        *given: object,
        **named: object,
    ) -> None:
        """Plan as FlashInfer does; of a layout that is on the host it copies nothing back to plan by."""
        graph, mirror = self._graph, self._mirror

        def plan(starts: torch.Tensor, keys: torch.Tensor, last_pages: torch.Tensor) -> None:
            graph.wrapper.begin_forward(starts, keys, paged_kv_indices, last_pages, *given, **named)
            graph.queued = _behind(paged_kv_indices.device, graph.queued)

        def by_device() -> None:
            plan(qo_indptr, paged_kv_indptr, paged_kv_last_page_len)

        def by_host(mirror: torch.Tensor) -> None:
            # A plan leaves for the GPU from the wrapper's one pinned buffer, and this one would not wait for the last
            # to have left, as the copies of the other do. Its own layout is staged before the call returns.
            if graph.queued is not None:
                graph.queued.synchronize()
            keys = torch.zeros(mirror.shape[0] + 1, dtype=torch.int32)
            keys[1:] = mirror.cumsum(0)
            # A page is a token, so that the last one is full.
            plan(graph.starts, keys, torch.ones(mirror.shape[0], dtype=torch.int32))

        if mirror is None or graph.by_host is False:
            by_device()
        elif graph.by_host:
            by_host(mirror)
        else:
            by_device()
            graph.by_host = _is_same(graph, lambda: by_host(mirror))
            if not graph.by_host:
                by_device()


def _is_same(graph: _Graph, by_host: Callable[[], None]) -> bool:
    """Tell whether the host's plan is what was just planned: the kernels' parameters, and the layout they read."""
    expected = getattr(graph.wrapper, "_plan_info", None)
    if expected is None:
        return False
    before = [each.clone() for each in graph.read]
    try:
        by_host()
    except (TypeError, ValueError, RuntimeError):
        _logger.warning("FlashInfer refuses to plan a draft-extend from the host's lengths.", exc_info=True)
        return False
    planned = getattr(graph.wrapper, "_plan_info", None)
    same = planned is not None and list(planned) == list(expected)
    same = same and all(torch.equal(*pair) for pair in zip(graph.read, before, strict=True))
    if not same:
        _logger.warning(
            "FlashInfer plans a draft-extend otherwise from the host's lengths, which are left alone."
        )
    return same


def _behind(device: torch.device, event: torch.cuda.Event | None) -> torch.cuda.Event | None:
    """Return an event behind what is queued on the current stream; none where there is no stream."""
    if device.type != "cuda":
        return None
    event = event or torch.cuda.Event()
    event.record()
    return event
