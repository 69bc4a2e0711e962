"""Write what the verify of drafted chains reads, to its graph's buffers and to the batch's own, in one launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .step_buffers import ChainDrafts, ChainInputs, ChainMask


def fill_chains(drafted: ChainDrafts, inputs: ChainInputs, mask: ChainMask | None) -> None:
    """Write ``drafted`` to ``inputs``, and the causal part of ``mask`` if there is one: on a GPU in one launch.

    What would be behind the end of the mask is not written.
    """
    if drafted.lens.is_cuda:
        from .chain_inputs_kernel import fill_chains_by_kernel

        fill_chains_by_kernel(drafted, inputs, mask)
    else:
        fill_chains_by_torch(drafted, inputs, mask)


def fill_chains_by_torch(drafted: ChainDrafts, inputs: ChainInputs, mask: ChainMask | None) -> None:
    """Implement ``fill_chains`` by torch operations."""
    tokens = torch.cat((drafted.bonus[:, None], drafted.drafts), dim=1)
    at = torch.arange(tokens.shape[1], device=tokens.device)
    for into in (inputs.tokens, inputs.graph_tokens):
        into.copy_(tokens.flatten())
    for into in (inputs.positions, inputs.graph_positions):
        into.copy_((drafted.lens[:, None] + at).flatten())
    inputs.graph_slots.copy_(drafted.slots)
    inputs.graph_rows.copy_(drafted.rows)
    if mask is None:
        return
    lens = mask.lens.long()[:, None, None]
    starts = mask.starts[: len(lens), None, None]
    places = starts + at[:, None] * (lens + len(at)) + lens + at
    seen = (at <= at[:, None]).expand_as(places)
    inside = places < mask.mask.numel()
    mask.mask[places[inside]] = seen[inside].to(mask.mask.dtype)
