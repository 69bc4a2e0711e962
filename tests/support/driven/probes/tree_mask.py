"""The tree mask of a verify: its size from the workers' draft, with the total length known or bounded."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.attention.hybrid_attn_backend import HybridAttnBackend
from sglang.srt.layers.attention.hybrid_linear_attn_backend import HybridLinearAttnBackend
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend
from sglang.srt.speculative import eagle_utils, eagle_worker_v2, multi_layer_eagle_worker_v2
from sglang.srt.speculative.eagle_utils import TreeMaskMode
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker
from sglang.srt.speculative.multi_layer_eagle_worker_v2 import MultiLayerEagleDraftWorker
from torch.utils._python_dispatch import TorchDispatchMode

from patchkit.runtime.replays import padded_replay

from . import attention_backends as backends
from . import linear_attention, repeatable

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = {
    "eagle": (EagleDraftWorker, eagle_worker_v2),
    "multi-layer": (MultiLayerEagleDraftWorker, multi_layer_eagle_worker_v2),
}


@repeatable
def drafted(
    worker: str,
    kind: str,
    server: dict[str, Any],
    lens: list[int],
    *,
    total: int | None,
    mode: str = "FULL_MASK",
    graph: int | None = None,
    disable: str = "",
) -> dict[str, Any]:
    """Let a worker's draft end in a verify's input; ``graph`` says for how many requests the target has graphs.

    ``disable`` names patches that are off.
    Returns the total that the mask was sized by, the mask, and what the kernel that fills it was given.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    backend = backends.target(kind, server, graph)
    filled: list[Any] = []
    verify, total_of_mask, reads = _verify_input(
        worker, backend, server, lens, total, mode=mode, kernel=lambda *arguments: filled.append(arguments)
    )
    mask = verify.custom_mask
    ((_, _, kernel_lens, kernel_mask, kernel_positions, *_),) = filled
    preallocated = _is_in(mask, backend.get_verify_buffers_to_fill_after_draft()[0])
    return {
        # What is preallocated is not sized, so that an unknown total is any number then.
        "total": None if preallocated and total is None else total_of_mask,
        "mask": (str(mask.dtype), mask.numel(), int(mask.to(torch.int64).sum())),
        "preallocated": preallocated,
        "kernel_fills_it": kernel_mask is mask,
        "lens": kernel_lens.tolist(),
        "positions": (kernel_positions.numel(), verify.positions is kernel_positions),
        "host_reads": reads.count,
    }


def _verify_input(
    worker: str,
    backend: Any,
    server: dict[str, Any],
    lens: list[int],
    total: int | None,
    *,
    kernel: Callable[..., None],
    mode: str = "FULL_MASK",
) -> tuple[Any, Any, backends.HostReads]:
    """Return the verify's input in which a worker's draft ends, the total that sized its mask, and what the host read.

    ``kernel`` stands for the one that fills the mask.
    """
    cls, module = WORKERS[worker]
    count, tokens, topk, steps = len(lens), server["draft_tokens"], server["topk"], server["steps"]
    results = (torch.zeros(count, topk), torch.zeros(count, tokens - 1), torch.ones(count, tokens - 1))
    prepared = SimpleNamespace(forward_mode=backends.MODES["decode"]), True
    batch = SimpleNamespace(
        forward_mode=backends.MODES["decode"],
        seq_lens=torch.tensor(lens, dtype=torch.int64),
        seq_lens_sum=total,
        spec_info=SimpleNamespace(
            bonus_tokens=torch.ones(count),
            # Its name in the oldest trees.
            verified_id=torch.ones(count),
            prepare_for_v2_draft=lambda *_: prepared,
        ),
    )
    drafting = object.__new__(cls)
    drafting.__dict__ |= {
        # The worker's own in later trees.
        "prepare_for_draft": lambda *_, **__: prepared,
        "req_to_token_pool": None,
        "cuda_graph_runner": SimpleNamespace(replay=lambda _: results, execute=lambda _: (*results, None)),
        "draft_forward": lambda _: results,
        "draft_runner": SimpleNamespace(canary_manager=None),
        "draft_runner_list": [None],
        "target_worker": SimpleNamespace(model_runner=SimpleNamespace(attn_backend=backend)),
        "topk": topk,
        "speculative_num_steps": steps,
        "speculative_num_draft_tokens": tokens,
        "tree_mask_mode": TreeMaskMode[mode],
        "seed_dsa_topk_from_draft_extend": False,
    }
    totals: list[Any] = []
    build = module.build_tree_kernel_efficient

    def build_and_note(*arguments: Any) -> Any:
        totals.append(arguments[5])
        return build(*arguments)

    reads = backends.HostReads()
    eagle_utils.sgl_build_tree_kernel_efficient = kernel
    module.build_tree_kernel_efficient = build_and_note
    try:
        with reads:
            verify = drafting.draft(batch)
    finally:
        module.build_tree_kernel_efficient = build
    return verify, totals[0], reads


class _Fork(TritonAttnBackend):
    """A fork's subclass, with a mask of the context's size as the releases have."""

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int, *more: Any, **named: Any) -> None:
        super().init_cuda_graph_state(max_bs, max_num_tokens, *more, **named)
        self.cuda_graph_custom_mask = torch.zeros(max_num_tokens * self.max_context_len, dtype=torch.uint8)


class _Wrapper(AttentionBackend):
    """A fork's wrapper: it forwards what graph runners read of a backend, but no buffers."""

    needs_cpu_seq_lens = False

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self.max_context_len = wrapped.max_context_len
        # Which whoever wraps a backend in later trees takes over.
        self.token_to_kv_pool = getattr(wrapped, "token_to_kv_pool", None)
        self.req_to_token_pool = getattr(wrapped, "req_to_token_pool", None)

    def init_cuda_graph_state(self, *given: Any, **named: Any) -> None:
        self.wrapped.init_cuda_graph_state(*given, **named)

    def init_forward_metadata(self, batch: Any) -> None:
        self.wrapped.init_forward_metadata(batch)

    def init_forward_metadata_capture_cuda_graph(self, *given: Any, **named: Any) -> None:
        self.wrapped.init_forward_metadata_capture_cuda_graph(*given, **named)

    def init_forward_metadata_replay_cuda_graph(self, *given: Any, **named: Any) -> None:
        self.wrapped.init_forward_metadata_replay_cuda_graph(*given, **named)


if not hasattr(AttentionBackend, "init_forward_metadata_replay_cuda_graph"):
    # Later trees have one method for both, by which a graph runner's stand-in knows them.
    del _Wrapper.init_forward_metadata_capture_cuda_graph, _Wrapper.init_forward_metadata_replay_cuda_graph
    _Wrapper.init_forward_metadata_out_graph = lambda self, *given, **named: (
        self.wrapped.init_forward_metadata_out_graph(*given, **named)
    )


class _Handing(_Wrapper):
    """A fork's wrapper that forwards its backend's mask, but not the context length."""

    def __init__(self, wrapped: Any) -> None:
        super().__init__(wrapped)
        del self.max_context_len

    def get_verify_buffers_to_fill_after_draft(self) -> Any:
        return self.wrapped.get_verify_buffers_to_fill_after_draft()


class _Own(AttentionBackend):
    """A fork's own backend, with a mask for as many requests as its graphs have, that says nothing else of it."""

    def __init__(self, server: dict[str, Any]) -> None:
        self.row = server["draft_tokens"] * (server["context"] + backends.ROOM)
        self.mask = torch.zeros(0, dtype=torch.bool)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int, *more: Any, **named: Any) -> None:
        self.mask = torch.zeros(max_bs * self.row, dtype=torch.bool)

    def init_forward_metadata(self, batch: Any) -> None:
        raise NotImplementedError

    def get_verify_buffers_to_fill_after_draft(self) -> Any:
        return [self.mask, None]


def _target(kind: str, server: dict[str, Any]) -> tuple[Any, Any]:
    """Return a target's backend of a kind, made of others' kinds, and the one of them that attends in a verify."""
    if kind.startswith("linear "):
        full, leaf = _target(kind.removeprefix("linear "), server)
        return HybridLinearAttnBackend(full, linear_attention.linear("gdn"), [0]), leaf
    if kind.startswith("wrapped "):
        wrapped, leaf = _target(kind.removeprefix("wrapped "), server)
        return _Wrapper(wrapped), leaf
    if kind.startswith("handing "):
        wrapped, leaf = _target(kind.removeprefix("handing "), server)
        return _Handing(wrapped), leaf
    if kind == "own":
        own = _Own(server)
        return own, own
    if "+" in kind:
        (prefill, leaf), (decode, _) = (_target(side, server) for side in kind.split("+"))
        runner = backends.model_runner(**server)
        runner.server_args.speculative_attention_mode = "prefill"
        return HybridAttnBackend(runner, prefill, decode), leaf
    leaf = _Fork(backends.model_runner(**server)) if kind == "fork" else backends.target(kind, server, None)
    return leaf, leaf


def _is_in(mask: torch.Tensor, buffer: torch.Tensor | None) -> bool:
    """Return whether a mask is the first part of a buffer, or all of it."""
    return buffer is not None and mask.data_ptr() == buffer.data_ptr() and mask.numel() <= buffer.numel()


def _room(mask: torch.Tensor) -> torch.Tensor:
    """Return a mask with all that is behind it in its memory."""
    storage = mask.untyped_storage()
    size = storage.nbytes() // mask.element_size() - mask.storage_offset()
    return torch.as_strided(mask, (int(size),), (1,))


def handed_out(kind: str, server: dict[str, Any], lens: list[int], graph: int) -> dict[str, Any]:
    """Draft with the mirror for a backend of a kind as in ``verified``, and return which mask the verify has."""
    backend, _ = _target(kind, server)
    with backends.OnCpu():
        backend.init_cuda_graph_state(graph, graph * server["draft_tokens"])
    verify, total, reads = _verify_input("eagle", backend, server, lens, sum(lens), kernel=lambda *_: None)
    return {
        "handed_out": verify.custom_mask is backend.get_verify_buffers_to_fill_after_draft()[0],
        "total": total,
        "host_reads": reads.count,
    }


class _Written(TorchDispatchMode):
    """Counts the bytes of what is made anew or written over."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        returned = made if isinstance(made, (tuple, list)) else (made,)
        # An operation that returns nothing returns None.
        for tensor, declared in zip(returned, func._schema.returns, strict=False):
            is_view = declared.alias_info is not None and not declared.alias_info.is_write
            if isinstance(tensor, torch.Tensor) and not is_view:
                self.count += tensor.nbytes
        return made


def written(  # noqa: PLR0917
    worker: str,
    kind: str,
    server: dict[str, Any],
    lens: list[int],
    graph: int | None,
    known: bool = False,
) -> int:
    """Return how many bytes a worker's draft, with the mirror if ``known``, makes anew or writes over."""
    backend, _ = _target(kind, server)
    if graph is not None:
        with backends.OnCpu():
            backend.init_cuda_graph_state(graph, graph * server["draft_tokens"])
    with _Written() as counted:
        _verify_input(worker, backend, server, lens, sum(lens) if known else None, kernel=lambda *_: None)
    return int(counted.count)


@repeatable
def verified(  # noqa: PLR0917
    kind: str,
    server: dict[str, Any],
    lens: list[int],
    graph: int,
    known: bool = False,
    disable: str = "",
) -> dict[str, Any]:
    """Draft and plan the verify of a batch, in a graph of ``graph`` requests where it has room there, else without.

    ``kind``: ``linear``, beside linear attention, and ``wrapped``, in a fork's wrapper, stand before what is wrapped;
    ``a+b`` verifies with a. ``known``: the batch has its mirror. Returns how far behind its memory the mask was written
    and is read, and whether each token sees the context and those before it.
    """
    os.environ["PATCHKIT_DISABLE"] = disable
    tokens, count = server["draft_tokens"], len(lens)
    backend, leaf = _target(kind, server)
    written: list[int] = []

    def build(*given: Any) -> None:
        mask, end = _room(given[3]), 0
        for length in lens:
            rows = torch.ones(tokens, length + tokens, dtype=mask.dtype)
            rows[:, length:] = torch.ones(tokens, tokens).tril()
            # The kernel takes the context's cells for filled.
            for row in rows:
                inside = mask[end + length : end + len(row)]
                inside.copy_(row[length : length + len(inside)])
                end += len(row)
        written.append(end - len(mask))

    with backends.OnCpu():
        backend.init_cuda_graph_state(graph, graph * tokens)
    sizes = [buffer.nbytes for name, buffer in vars(leaf).items() if name == "cuda_graph_custom_mask"]
    if count <= graph:
        state = backends.GraphInputs(leaf, graph)
        spec = backends.spec_info("verify", stride=tokens)
        spec.custom_mask = torch.ones(graph * tokens, dtype=torch.uint8)
        backends.capture(
            backend,
            "verify",
            bs=graph,
            num_tokens=graph * tokens,
            rows=state.rows,
            lens=state.lens,
            spec=spec,
        )
    # What earlier batches left, where the mask of a tree has no ones.
    for buffer in (
        backend.get_verify_buffers_to_fill_after_draft(),
        leaf.get_verify_buffers_to_fill_after_draft(),
    ):
        if buffer[0] is not None:
            buffer[0].zero_()
    verify, _, reads = _verify_input(
        "eagle", backend, server, lens, sum(lens) if known else None, kernel=build
    )
    batch = {"rows": list(range(1, count + 1)), "lens": lens, "accepted": [1] * count, "graph": graph}
    if count <= graph:
        state = backends.GraphInputs(leaf, graph, batch)
        with reads, padded_replay(graph, count):
            backends.replay(
                backend, "verify", bs=graph, rows=state.rows, lens=state.lens,
                lens_cpu=state.lens_cpu if known else None, total=state.total if known else None, spec=verify,
            )  # fmt: skip
    else:
        planned = backends.eager_batch(leaf, server, "verify", batch, mirror=known)
        planned.spec_info = verify
        with reads:
            backend.init_forward_metadata(planned)
    metadata = leaf.forward_metadata
    mask, starts = _room(metadata.custom_mask), metadata.mask_indptr.tolist()
    sees = []
    for start, length in zip(starts, lens, strict=False):
        rows = mask[start : start + tokens * (length + tokens)].to(torch.int64)
        full = rows.numel() == tokens * (length + tokens)
        sees.append(
            full and rows.reshape(tokens, -1).tolist()
            == [[1] * (length + row + 1) + [0] * (tokens - row - 1) for row in range(tokens)]
        )  # fmt: skip
    return {
        "written_past": max(written[0], 0),
        "read_past": max(starts[-1] - len(mask), 0),
        "sees": all(sees),
        "in_the_graphs_own": _is_in(verify.custom_mask, leaf.get_verify_buffers_to_fill_after_draft()[0]),
        "padding_sees": all(
            bool(mask[start : start + tokens * (1 + tokens)].all()) for start in starts[count:graph]
        ),
        "elements": verify.custom_mask.numel(),
        "graphs_bytes": sizes,
        "host_reads": reads.count,
    }
