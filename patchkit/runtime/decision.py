"""One answer per server: does any attention backend of a spec-v2 forward read the lengths' CPU mirror?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .report import report
from .switches import VARIABLE, disabled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .shapes import Worker

UNDECLARED = object()
"""Stands for the backends that a worker does not name; like every undeclared one it needs the mirror."""

# What a backend that answers for others calls them.
_SIDES = ("prefill_backend", "decode_backend", "full_attn_backend", "linear_attn_backend")

# Classes whose flag is a constant: who turns the patch that set it off has it read as before.
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
    """Tell whether ``seq_lens_cpu`` and ``seq_lens_sum`` have to be kept.

    The answer is the OR of the backends' ``needs_cpu_seq_lens``; a backend without that flag counts as True and a
    None slot is ignored. Two-batch overlap and piecewise CUDA graphs read the mirror outside of any backend, so
    they force True, and so does a server that has no such setting. Source: pull requests 26128 and 26738.
    """
    kept = _decided(_readers(server_args, attn_backends, piecewise=True))
    # Said once more: `patchkit audit` reads here which settings keep the mirror.
    if getattr(server_args, "enable_two_batch_overlap", True):
        return True
    if not getattr(server_args, "disable_piecewise_cuda_graph", False):
        return True
    return kept


def decide_with_piecewise_graphs(server_args: object, attn_backends: Iterable[object]) -> bool:
    """Tell the same, with piecewise CUDA graphs running prefills alone, so that they force nothing.

    N-gram speculation does: its verify sizes a full mask from the mirror, whatever the backend. Breakable graphs do,
    since a draft may have them and run its draft-extend in them. Source: 28633.
    """
    return _decided(_readers(server_args, attn_backends, piecewise=disabled("28633")))


def _decided(readers: Iterator[str]) -> bool:
    forced_by = next(readers, None)
    report(forced_by)
    return forced_by is not None


def _readers(server_args: object, attn_backends: Iterable[object], *, piecewise: bool) -> Iterator[str]:
    """Yield who reads the mirror, or may: settings first, then backends."""
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
            yield "backends that are not named" if backend is UNDECLARED else type(backend).__name__


def _captures_piecewise(server_args: object) -> bool:
    """Tell whether a server captures piecewise graphs, by the setting of its time; without one, yes."""
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
