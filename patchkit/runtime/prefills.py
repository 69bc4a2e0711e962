"""Give a draft's prefill the token after each chunk of a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch


def tokens_after_prefill(requests: Sequence[Any], sampled: torch.Tensor) -> torch.Tensor:
    """Return the token after each request's chunk, shape [batch]: the prompt's next one, else the ``sampled`` one.

    ``sampled``, integer, shape [batch], is not modified. A next token outside of the vocabulary is a placeholder,
    as for an image, and the sampled one is used. Source: pull requests 26800 and 27863.
    """
    following = sampled
    for row, request in enumerate(requests):
        end, prompt = len(request.fill_ids), request.origin_input_ids
        if end < len(prompt) and prompt[end] < request.vocab_size:
            if following is sampled:
                following = sampled.clone()
            # Assigning a scalar would copy it from the host, with a wait.
            following[row : row + 1].fill_(prompt[end])
    return following
