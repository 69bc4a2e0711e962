"""Avoid copies and repeated plans in the calls of attention kernels."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .flash_attention import is_multi_head
from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Callable

    from .shapes import FlashAttentionPlans, ModeBatch

VIEWS, PLAN = "pk-attention-views", "pk-fa3-verify-schedule"
# The bytes that a kernel may load in one access.
_ALIGNMENT = 16
_PLAN = "patchkit_plan"
# The values that sglang's own switches read as false.
_FALSE = {"false", "0", "no", "n"}
_VERSION = 3
# With other arguments, the planner, which does not get them, might plan other splits than the kernel.
_KNOWN = {
    "q",
    "k_cache",
    "v_cache",
    "page_table",
    "cache_seqlens",
    "cu_seqlens_q",
    "cu_seqlens_k_new",
    "max_seqlen_q",
    "softmax_scale",
    "causal",
    "window_size",
    "softcap",
    "k_descale",
    "v_descale",
    "return_softmax_lse",
    "num_splits",
    "out",
    "ver",
    "sinks",
}


def _are_rows(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has packed rows with one stride, and 32-bit offsets reach all of it."""
    packed = 1
    for size, stride in zip(reversed(tensor.shape[1:]), reversed(tensor.stride()[1:]), strict=True):
        if size != 1 and stride != packed:
            return False
        packed *= size
    return tensor.dim() > 1 and tensor.stride(0) >= packed and tensor.shape[0] * tensor.stride(0) < 2**31


def in_place(backend: object, rows: torch.Tensor) -> torch.Tensor:
    """Return ``rows``, shape [tokens, ...], uncopied where Triton's extend kernel takes them so, else packed.

    The kernel of a backend that is not the tree's own class is unknown. Source: pk-attention-views.
    """
    own = type(backend).__name__ == "TritonAttnBackend" and not disabled(VIEWS)
    return rows if own and _are_rows(rows) else rows.contiguous()


def queries(backend: object, rows: torch.Tensor, heads: int, head_dim: int) -> torch.Tensor:
    """Return queries, one token per row, as [tokens, heads, head_dim], uncopied where FlashAttention-3 allows it.

    They are packed for other versions, other classes and rows that are not aligned. Source: pk-attention-views.
    """
    if (
        disabled(VIEWS)
        or torch.compiler.is_compiling()
        or not is_multi_head(backend)
        or not _are_rows(rows)
        or rows.data_ptr() % _ALIGNMENT
        or rows.stride(0) * rows.element_size() % _ALIGNMENT
    ):
        rows = rows.contiguous()
    return rows.view(-1, heads, head_dim)


class _Plan(NamedTuple):
    layer: int
    made_for: tuple[object, ...]
    schedule: torch.Tensor


def planned_once(
    backend: FlashAttentionPlans, batch: ModeBatch, layer: Any, attend: Callable[..., Any]
) -> Callable[..., Any]:
    """Return ``attend``, FlashAttention-3's kernel, with one plan of a verify for all layers.

    The first layer of each forward makes the plan, with the library's own planner and the arguments of the call, so
    that a graph contains the planner's kernels. There is no plan for calls with arguments that the planner does not
    get, such as a window or a mask, for another batch than the forward's, under data-parallel attention and prefill
    context parallelism, where upstream found plans that did not fit (24632, 30439), and in a tree from before the
    former, which has no setting for it. The
    planner is sgl-kernel's: if ``SGLANG_USE_SGL_FA3_KERNEL`` in the environment selects another kernel, that one
    plans itself. Source: pk-fa3-verify-schedule; for a decode, pull request 21104.
    """
    if (
        disabled(PLAN)
        or os.environ.get("SGLANG_USE_SGL_FA3_KERNEL", "").lower() in _FALSE
        or torch.compiler.is_compiling()
        or not batch.forward_mode.is_target_verify()
        or not is_multi_head(backend)
        or getattr(backend, "_get_scheduler_metadata", None) is None
        or getattr(backend, "_disable_scheduler_metadata_precompute", True)
        # The setting includes it since 0.5.15.
        or getattr(backend, "attn_cp_size", 1) > 1
    ):
        return attend

    def attend_as_planned(**arguments: Any) -> Any:
        if not _is_forward_of(backend.forward_metadata, arguments):
            return attend(**arguments)
        return attend(**arguments, scheduler_metadata=_schedule(backend, layer.layer_id, arguments))

    return attend_as_planned


def _is_forward_of(metadata: object, arguments: dict[str, Any]) -> bool:
    """Return whether a call attends to the batch of the forward's metadata, with arguments that the planner covers."""
    same = all(
        arguments.get(name) is getattr(metadata, field, None)
        for name, field in (
            ("page_table", "page_table"),
            ("cache_seqlens", "cache_seqlens_int32"),
            ("cu_seqlens_q", "cu_seqlens_q"),
        )
    )
    return (
        same
        and arguments.keys() <= _KNOWN
        and arguments.get("ver", _VERSION) == _VERSION
        and arguments["causal"]
        and tuple(arguments["window_size"]) == (-1, -1)
        and arguments["v_cache"].shape[-1] == arguments["q"].shape[-1]
    )


def _schedule(backend: FlashAttentionPlans, layer: int, arguments: dict[str, Any]) -> torch.Tensor:
    query, keys, table = arguments["q"], arguments["k_cache"], arguments["page_table"]
    lens, page_size = arguments["cache_seqlens"], keys.shape[1]
    options = {
        "batch_size": lens.shape[0],
        "max_seqlen_q": arguments["max_seqlen_q"],
        # The kernel's own bound, from which it derives its splits.
        "max_seqlen_k": table.shape[1] * page_size,
        "num_heads": query.shape[1],
        "num_heads_k": keys.shape[2],
        "headdim": query.shape[2],
        "qkv_dtype": query.dtype,
        "page_size": page_size,
        "causal": True,
        "has_softcap": arguments["softcap"] > 0,
        "num_splits": arguments["num_splits"],
    }
    made_for = tuple(options.values())
    last: _Plan | None = getattr(backend.forward_metadata, _PLAN, None)
    # A layer that does not follow the last one starts another forward, such as a capture after its warm-up runs: its
    # lengths may differ, and its graph must contain the planner's kernels.
    if last is None or layer <= last.layer or last.made_for != made_for:
        offsets = arguments["cu_seqlens_q"]
        schedule = backend._get_scheduler_metadata(**options, cache_seqlens=lens, cu_seqlens_q=offsets)
    else:
        schedule = last.schedule
    setattr(backend.forward_metadata, _PLAN, _Plan(layer, made_for, schedule))
    return schedule
