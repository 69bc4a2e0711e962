"""Decide once per server whether an attention backend of a spec-v2 forward reads the CPU mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .report import report, warn
from .switches import DECIDING, VARIABLE, disabled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .shapes import Worker

UNDECLARED = object()
"""In place of the backends of a worker that does not name them; counts as one that needs the mirror."""

# The attributes in which wrappers keep their backends.
_SIDES = ("prefill_backend", "decode_backend", "full_attn_backend", "linear_attn_backend")


class Reader:
    """What keeps the mirror beside the backends, with the flag of a backend; ``why`` it does is the end of a clause."""

    needs_cpu_seq_lens = True

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why


def decide_needs_cpu_seq_lens(server_args: object, attn_backends: Iterable[object]) -> bool:
    """Return whether the server must keep ``seq_lens_cpu`` and ``seq_lens_sum``.

    True if ``needs_cpu_seq_lens`` of any backend is True or missing; None entries are ignored. Two-batch overlap
    and piecewise CUDA graphs read the mirror outside of the backends and force True, also where a server lacks
    these settings. Source: pull requests 26128 and 26738.
    """
    needed = next(_readers(server_args, attn_backends, piecewise=True), None) is not None
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
    return next(_readers(server_args, attn_backends, piecewise=disabled("28633")), None) is not None


def report_mirror(
    needed: bool, attn_backends: Iterable[object], draft_worker: object, server_args: object
) -> None:
    """Log what was decided about the mirror, by whichever function, and what keeps it.

    Without a draft worker every release keeps it, since the host counts the tokens of plain decoding anyway.
    """
    if draft_worker is None:
        report("decoding without speculation")
    elif needed:
        report(next(_readers(server_args, attn_backends, piecewise=True), "the tree's own decision"))
    else:
        report(None)


def _readers(server_args: object, attn_backends: Iterable[object], *, piecewise: bool) -> Iterator[str]:
    """Yield the backends, then the settings, that read the mirror or may read it."""
    for backend in attn_backends:
        if backend is not None and _reads(backend):
            yield "undeclared backends" if backend is UNDECLARED else _name(backend)
    if getattr(server_args, "enable_two_batch_overlap", True):
        yield "two-batch overlap"
    if getattr(server_args, "enable_breakable_cuda_graph", False):
        yield "breakable CUDA graphs"
    if str(getattr(server_args, "speculative_algorithm", None)).upper() == "NGRAM":
        yield "n-gram speculation"
    # Last: also the name of a decision that does not say whether it considers them.
    if piecewise and _captures_piecewise(server_args):
        yield "piecewise CUDA graphs"


def _name(backend: object) -> str:
    return backend.name if isinstance(backend, Reader) else type(backend).__name__


def _captures_piecewise(server_args: object) -> bool:
    """Return whether a server captures piecewise graphs, by whichever setting it has; True without one."""
    config = getattr(server_args, "cuda_graph_config", None)
    if config is not None:
        return "piecewise" in str(config.prefill.backend).lower()
    return not getattr(server_args, "disable_piecewise_cuda_graph", False)


def _reads(backend: object) -> bool:
    if getattr(backend, "needs_cpu_seq_lens", True):
        return True
    return any(_reads(side) for side in _sides(backend))


def _sides(backend: object) -> list[object]:
    sides = [getattr(backend, name, None) for name in _SIDES]
    # FlashInfer has the names of its kernels in attributes of these names.
    return [side for side in sides if side is not None and not isinstance(side, str)]


def spec_v2_backends(draft_worker: object, target_worker: Worker) -> tuple[object, ...]:
    """Return the backends that a server's forwards use, for the decision, as `with_switches` completes them.

    Without a draft worker, that is the target's. ``UNDECLARED`` replaces the backends of a draft worker without
    ``spec_v2_attn_backends``, and of one with a plan stream: the lengths that are read on that stream may be
    ordered only by the host's wait for the mirror. Source: pull request 26128, which used the target's backend for
    workers without the attribute.
    """
    if draft_worker is None:
        backends: tuple[object, ...] = (target_worker.model_runner.attn_backend,)
    elif getattr(draft_worker, "plan_stream", None) is not None:
        backends = (UNDECLARED,)
    else:
        backends = tuple(getattr(draft_worker, "spec_v2_attn_backends", (UNDECLARED,)))
    return with_switches(backends, draft_worker)


def with_switches(attn_backends: Iterable[object], draft_worker: object) -> tuple[object, ...]:
    """Return the backends and a `Reader` for each patch in ``PATCHKIT_DISABLE`` without which the mirror is kept.

    Whether the patch or the release itself made the mirror optional. Logs a warning that names those of the variable
    that change nothing: the server does not speculate, or no backend runs without the mirror by such a patch.
    """
    backends = tuple(attn_backends)
    named = [patch for patch in DECIDING if disabled(patch)]
    used = [patch for patch in named if draft_worker is not None and _concerns(patch, backends)]
    idle = [patch for patch in named if patch not in used]
    if idle:
        why = "no backend of this server runs without the CPU mirror by it"
        if draft_worker is None:
            why = "this server does not speculate"
        warn(
            f"{VARIABLE} names {', '.join(idle)}, which does not change whether the CPU mirror is kept: {why}."
        )
    return (*backends, *(Reader(f"{VARIABLE}={patch}", "it turns this patch off") for patch in used))


def _concerns(patch: str, backends: Iterable[object]) -> bool:
    classes = DECIDING[patch]
    return not classes or any(_runs_without(classes, backend) for backend in backends if backend is not None)


def _runs_without(classes: Iterable[str], backend: object) -> bool:
    """Return whether a backend or a side of it is of one of the classes and does not read the mirror."""
    owners = {owner.__name__ for owner in type(backend).__mro__}
    if any(name in owners for name in classes) and not getattr(backend, "needs_cpu_seq_lens", True):
        return True
    return any(_runs_without(classes, side) for side in _sides(backend))


def with_draft_positions(attn_backends: Iterable[object], draft_worker: object) -> tuple[object, ...]:
    """Return the backends and a `Reader` for a draft model with multimodal rotary positions (M-RoPE).

    For releases in which its draft-extend computes them from the lengths on the host: without the mirror it copies
    them itself, several times a step. Source: 28464, with which releases from 0.5.14 on compute them on the device.
    """
    runner = getattr(getattr(draft_worker, "_draft_worker", None), "draft_runner", None)
    if getattr(runner, "model_is_mrope", False):
        reader = Reader(
            "the multimodal rotary positions of the draft",
            "its draft-extend computes them from the lengths on the host",
        )
        return (*attn_backends, reader)
    return tuple(attn_backends)
