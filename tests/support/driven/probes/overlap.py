"""Wrappers of later releases: whether a server with a plan stream starts, and what its first verify then meets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sglang.srt.layers.attention.dots_hybrid_backend import DotsSWAMLAAttnBackend
from sglang.srt.layers.attention.flashattention_backend import FlashAttentionBackend
from sglang.srt.layers.attention.minimax_sparse_backend import MiniMaxHybridAttnBackend
from sglang.srt.layers.attention.triton_backend import TritonAttnBackend

from patchkit.runtime.overlap import HOOK, require_overlap_hook

_INNER = {"fa": FlashAttentionBackend, "triton": TritonAttnBackend}
_WRAPPERS = {"backend": DotsSWAMLAAttnBackend, "dense": MiniMaxHybridAttnBackend}


def _bare(kind: Any, **fields: Any) -> Any:
    made = object.__new__(kind)
    vars(made).update(fields)
    return made


def wrapped(name: str, inner: str) -> tuple[str | None, bool]:
    """Return why a server does not start whose target holds a backend under ``name``, and whether a verify raises."""
    target = _bare(_WRAPPERS[name], **{name: _bare(_INNER[inner])})
    message, raises = None, False
    try:
        require_overlap_hook(SimpleNamespace(), target)
    except RuntimeError as error:
        message = str(error)
    try:
        getattr(target, HOOK)(SimpleNamespace(), None)
    except NotImplementedError:
        raises = True
    return message, raises
