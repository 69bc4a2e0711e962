"""A draft's prefill reads what follows each token of a prompt, also where a chunk of the prompt ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from .shapes import ChunkedRequest


def tokens_after_prefill(requests: Sequence[ChunkedRequest], sampled: torch.Tensor) -> torch.Tensor:
    """Return the token that follows each request's chunk, shape [batch]: the prompt's next, else the ``sampled`` one.

    ``sampled``, integer, shape [batch], is left as it is. A next token that the vocabulary lacks stands for an
    image, and the sampled one is taken. Source: pull requests 26800 and 27863.
    """
    following = sampled
    for row, request in enumerate(requests):
        end, prompt = len(request.fill_ids), request.origin_input_ids
        if end < len(prompt) and prompt[end] < request.vocab_size:
            if following is sampled:
                following = sampled.clone()
            # A scalar that is assigned is copied from the host, for which the stream waits.
            following[row : row + 1].fill_(prompt[end])
    return following
