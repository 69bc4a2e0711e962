"""Embeddings and positions of a draft model for requests with images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def with_last_tokens(
    embeds: torch.Tensor,
    embed: Callable[[torch.Tensor], torch.Tensor],
    input_ids: torch.Tensor,
    batch: Any,
) -> torch.Tensor:
    """Return ``embeds`` with the embedding of each request's last token, which the target sampled.

    ``embeds``, the target's: shape [tokens, hidden], not modified; ``input_ids``: shape [tokens]. Source: pull
    requests 27647 and 27846.
    """
    last = (batch.extend_start_loc + batch.extend_seq_lens - 1).long()
    return embeds.index_copy(0, last, embed(input_ids[last]).to(embeds.dtype))


def positions_of_text(positions: torch.Tensor, inputs: Sequence[Any]) -> torch.Tensor:
    """Return the three rows of positions, int64, of the tokens after each prompt, as many for each request.

    ``positions``: shape [batch x tokens], in the order of ``inputs``, which has None for a request without an
    image. The rows of text are equal; after an image they are offset by the request's ``mrope_position_delta``.
    Source: pull request 28464.
    """
    found = positions.to(torch.int64)
    if any(each is not None for each in inputs):
        none = torch.zeros(1, dtype=torch.int64)
        deltas = torch.stack(
            [none if each is None else each.mrope_position_delta.reshape(1) for each in inputs]
        )
        found = (found.view(len(inputs), -1) + deltas.to(positions.device)).flatten()
    return found.unsqueeze(0).repeat(3, 1)
