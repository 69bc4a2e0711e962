"""Plan a multi-step draft step by step: each step's backend builds its own metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .shapes import EagerStep, MultiStepDraft, OutGraphStep, ReplayedStep, StepBatch

_Step = TypeVar("_Step")


def _steps(backend: MultiStepDraft[_Step]) -> Iterator[_Step]:
    """Yield the backends of all steps but the last, whose tokens need no forward."""
    for step in range(backend.speculative_num_steps - 1):
        yield backend.attn_backends[step]


def init_draft_steps(backend: MultiStepDraft[EagerStep], forward_batch: object) -> None:
    """Plan every step of a draft without a graph. Source: pull request 26241."""
    for step in _steps(backend):
        step.init_forward_metadata(forward_batch)


def replay_draft_steps(
    backend: MultiStepDraft[ReplayedStep], forward_batch: StepBatch, bs: int, decode_mode: object
) -> None:
    """Plan every step for the replay of a graph of ``bs`` requests, in ``decode_mode``. Source: pull request 26241.

    The sum of the lengths is passed as None, since no step reads it.
    """
    for step in _steps(backend):
        step.init_forward_metadata_replay_cuda_graph(
            bs,
            forward_batch.req_pool_indices,
            forward_batch.seq_lens,
            seq_lens_sum=None,
            encoder_lens=None,
            forward_mode=decode_mode,
            spec_info=forward_batch.spec_info,
            seq_lens_cpu=forward_batch.seq_lens_cpu,
        )


def out_graph_draft_steps(backend: MultiStepDraft[OutGraphStep], step_view: object) -> None:
    """Plan every step outside of the graph, from one decode-mode view of the batch. Source: pull request 26241."""
    for step in _steps(backend):
        step.init_forward_metadata_out_graph(step_view)
