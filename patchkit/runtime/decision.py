"""Decide once per server whether an attention backend of a spec-v2 forward reads the CPU mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .report import report
from .switches import VARIABLE, disabled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .shapes import Worker

UNDECLARED = object()
"""In place of the backends of a worker that does not name them; counts as one that needs the mirror."""

# The attributes in which wrappers keep their backends.
_SIDES = ("prefill_backend", "decode_backend", "full_attn_backend", "linear_attn_backend")

# Classes whose flag is constant, and the patch that set it: with the patch disabled, they need the mirror.
_OPTED_OUT_BY = {
    "DeepseekSparseAttnBackend": "29413",
    "DeepseekSparseAttnMultiStepBackend": "29413",
    "GDNAttnBackend": "28579",
    "HybridAttnBackend": "pk-hybrid-opt-out",
    "HybridLinearAttnBackend": "28579",
    "Mamba2AttnBackend": "28579",
    "NativeSparseAttnBackend": "29413",
    "NativeSparseAttnMultiStepBackend": "29413",
    "TRTLLMHAAttnBackend": "pk-trtllm-mha-opt-out",
    "TRTLLMHAAttnMultiStepDraftBackend": "pk-trtllm-mha-opt-out",
    "TRTLLMMLABackend": "26824",
    "TRTLLMMLAMultiStepDraftBackend": "26824",
}


def decide_needs_cpu_seq_lens(server_args: object, attn_backends: Iterable[object]) -> bool:
    """Return whether the server must keep ``seq_lens_cpu`` and ``seq_lens_sum``.

    True if ``needs_cpu_seq_lens`` of any backend is True or missing; None entries are ignored. Two-batch overlap
    and piecewise CUDA graphs read the mirror outside of the backends and force True, also where a server lacks
    these settings. Source: pull requests 26128 and 26738.
    """
    needed = _decided(_readers(server_args, attn_backends, piecewise=True))
    # Repeated for `patchkit audit`, which reads here which settings keep the mirror.
    if getattr(server_args, "enable_two_batch_overlap", True):
        return True
    if not getattr(server_args, "disable_piecewise_cuda_graph", False):
        return True
    return needed


def decide_with_piecewise_graphs(server_args: object, attn_backends: Iterable[object]) -> bool:
    """Return the same where piecewise CUDA graphs run only prefills and therefore force nothing.

    N-gram speculation forces True, since its verify sizes a full mask from the mirror with any backend. So do
    breakable graphs, in which a draft may run its draft-extend. Source: 28633.
    """
    return _decided(_readers(server_args, attn_backends, piecewise=disabled("28633")))


def _decided(readers: Iterator[str]) -> bool:
    forced_by = next(readers, None)
    report(forced_by)
    return forced_by is not None


def _readers(server_args: object, attn_backends: Iterable[object], *, piecewise: bool) -> Iterator[str]:
    """Yield the settings, then the backends, that read the mirror or may read it."""
    if disabled("26128"):
        yield f"{VARIABLE}=26128"
    if getattr(server_args, "enable_two_batch_overlap", True):
        yield "two-batch overlap"
    if piecewise and _captures_piecewise(server_args):
        yield "piecewise CUDA graphs"
    if getattr(server_args, "enable_breakable_cuda_graph", False):
        yield "breakable CUDA graphs"
    if str(getattr(server_args, "speculative_algorithm", None)).upper() == "NGRAM":
        yield "n-gram speculation"
    for backend in attn_backends:
        if backend is not None and _reads(backend):
            yield "undeclared backends" if backend is UNDECLARED else type(backend).__name__


def _captures_piecewise(server_args: object) -> bool:
    """Return whether a server captures piecewise graphs, by whichever setting it has; True without one."""
    config = getattr(server_args, "cuda_graph_config", None)
    if config is not None:
        return "piecewise" in str(config.prefill.backend).lower()
    return not getattr(server_args, "disable_piecewise_cuda_graph", False)


def _reads(backend: object) -> bool:
    if getattr(backend, "needs_cpu_seq_lens", True):
        return True
    owners = {owner.__name__ for owner in type(backend).__mro__}
    if any(disabled(patch) for name, patch in _OPTED_OUT_BY.items() if name in owners):
        return True
    sides = (getattr(backend, name, None) for name in _SIDES)
    # FlashInfer has the names of its kernels in attributes of these names.
    return any(_reads(side) for side in sides if side is not None and not isinstance(side, str))


def spec_v2_backends(draft_worker: object, target_worker: Worker) -> tuple[object, ...]:
    """Return the backends that a server's forwards use, for the decision.

    Without a draft worker, that is the target's. ``UNDECLARED`` replaces the backends of a draft worker without
    ``spec_v2_attn_backends``, and of one with a plan stream: the lengths that are read on that stream may be
    ordered only by the host's wait for the mirror. Source: pull request 26128, which used the target's backend for
    workers without the attribute.
    """
    if draft_worker is None:
        return (target_worker.model_runner.attn_backend,)
    if getattr(draft_worker, "plan_stream", None) is not None:
        return (UNDECLARED,)
    return tuple(getattr(draft_worker, "spec_v2_attn_backends", (UNDECLARED,)))
