"""One answer per server: does any attention backend of a spec-v2 forward read the lengths' CPU mirror?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

UNDECLARED = object()
"""Stands for the backends that a worker does not name; like every undeclared one it needs the mirror."""


def decide_needs_cpu_seq_lens(server_args: Any, attn_backends: Iterable[Any]) -> bool:
    """Tell whether ``seq_lens_cpu`` and ``seq_lens_sum`` have to be kept.

    The answer is the OR of the backends' ``needs_cpu_seq_lens``; a backend without that flag counts as True and a
    None slot is ignored. Two-batch overlap and piecewise CUDA graphs read the mirror outside of any backend, so
    they force True, and so does a server that has no such setting. Source: pull requests 26128 and 26738.
    """
    if getattr(server_args, "enable_two_batch_overlap", True):
        return True
    if not getattr(server_args, "disable_piecewise_cuda_graph", False):
        return True
    return any(
        getattr(backend, "needs_cpu_seq_lens", True) for backend in attn_backends if backend is not None
    )


def spec_v2_backends(draft_worker: Any, target_worker: Any) -> tuple[Any, ...]:
    """Return the backends that a server's forwards touch, for the decision.

    Without a draft worker that is the target's. A draft worker that does not say (``spec_v2_attn_backends``) counts
    as one that needs the mirror, and so does one with a plan stream: what is prepared there reads lengths that only
    the host's wait for the mirror may order. Source: pull request 26128, which took a silent worker's target
    backend for its word.
    """
    if draft_worker is None:
        return (target_worker.model_runner.attn_backend,)
    if getattr(draft_worker, "plan_stream", None) is not None:
        return (UNDECLARED,)
    return tuple(getattr(draft_worker, "spec_v2_attn_backends", (UNDECLARED,)))
