"""What a layer's attention hands to its kernel is neither copied nor planned without need."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .flash_attention import is_plain
from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Callable

    from .shapes import FlashAttentionPlans, Layer, ModeBatch

VIEWS, PLAN = "pk-attention-views", "pk-fa3-verify-schedule"
# A kernel may load so many bytes at once.
_ALIGNMENT = 16
_PLAN = "patchkit_plan"
# What sglang's own switches take for no.
_FALSE = {"false", "0", "no", "n"}
_VERSION = 3
# The arguments under which a planner that is not told of them splits as the attention kernel does.
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
    """Tell whether a tensor is packed rows at one distance, all of which 32-bit offsets reach."""
    packed = 1
    for size, stride in zip(reversed(tensor.shape[1:]), reversed(tensor.stride()[1:]), strict=True):
        if size != 1 and stride != packed:
            return False
        packed *= size
    return tensor.dim() > 1 and tensor.stride(0) >= packed and tensor.shape[0] * tensor.stride(0) < 2**31


def in_place(backend: object, rows: torch.Tensor) -> torch.Tensor:
    """Return ``rows``, shape [tokens, ...], as they lie where Triton's extend kernel addresses them so, else packed.

    A backend that is not the tree's own class may have another kernel. Source: pk-attention-views.
    """
    own = type(backend).__name__ == "TritonAttnBackend" and not disabled(VIEWS)
    return rows if own and _are_rows(rows) else rows.contiguous()


def queries(backend: object, rows: torch.Tensor, heads: int, head_dim: int) -> torch.Tensor:
    """Return queries of one token a row as [tokens, heads, head_dim], without a copy where FlashAttention-3 needs none.

    Other versions, other classes and rows that are not aligned get packed ones. Source: pk-attention-views.
    """
    if (
        disabled(VIEWS)
        or torch.compiler.is_compiling()
        or not is_plain(backend)
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
    backend: FlashAttentionPlans, batch: ModeBatch, layer: Layer, attend: Callable[..., Any]
) -> Callable[..., Any]:
    """Return ``attend``, FlashAttention-3's kernel, with the plan of a verify that all layers share.

    The plan is made by the library's own planner from the arguments of the call, by the first layer of each forward,
    so that a graph has it among its kernels. What the planner is not told of, such as a window, a mask or another
    batch than the forward's, is attended to without a plan, and so is everything under data-parallel attention, where
    upstream met plans that did not fit (24632), and in a tree from before that, which cannot tell. The planner is
    sgl-kernel's: where the environment's ``SGLANG_USE_SGL_FA3_KERNEL`` has the kernel come from elsewhere, that one
    plans as it does. Source: pk-fa3-verify-schedule; for a decode, pull request 21104.
    """
    if (
        disabled(PLAN)
        or os.environ.get("SGLANG_USE_SGL_FA3_KERNEL", "").lower() in _FALSE
        or torch.compiler.is_compiling()
        or not batch.forward_mode.is_target_verify()
        or not is_plain(backend)
        or getattr(backend, "_get_scheduler_metadata", None) is None
        or getattr(backend, "_disable_scheduler_metadata_precompute", True)
    ):
        return attend

    def attend_as_planned(**arguments: Any) -> Any:
        if not _is_forward_of(backend.forward_metadata, arguments):
            return attend(**arguments)
        return attend(**arguments, scheduler_metadata=_schedule(backend, layer.layer_id, arguments))

    return attend_as_planned


def _is_forward_of(metadata: object, arguments: dict[str, Any]) -> bool:
    """Tell whether a call is one of those that the forward's metadata describes and the planner knows."""
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
    asked = {
        "batch_size": lens.shape[0],
        "max_seqlen_q": arguments["max_seqlen_q"],
        # What the kernel takes for the longest, which bounds its splits.
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
    made_for = tuple(asked.values())
    last: _Plan | None = getattr(backend.forward_metadata, _PLAN, None)
    # Layers follow one another: one that does not begins another forward, such as a capture after its trial runs,
    # for which the lengths may be others and whose graph has to have the planner among its kernels.
    if last is None or layer <= last.layer or last.made_for != made_for:
        offsets = arguments["cu_seqlens_q"]
        schedule = backend._get_scheduler_metadata(**asked, cache_seqlens=lens, cu_seqlens_q=offsets)
    else:
        schedule = last.schedule
    setattr(backend.forward_metadata, _PLAN, _Plan(layer, made_for, schedule))
    return schedule
