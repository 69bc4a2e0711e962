"""Return each request its own rows of a verify's hidden states, one per accepted token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch


def hidden_states_of(
    states: torch.Tensor,
    request: int,
    accepted: int | Sequence[int],
    result: object,
    processor: Any,
) -> list[list[float]]:
    """Return the states of the tokens that the batch's ``request``-th request ``accepted``, one per token.

    ``states``: shape [batch, hidden] for a decode, where ``accepted`` is a token; [batch x draft tokens, hidden]
    for a verify, where it is a sequence of tokens. The draft tokens per request are those of ``result``, else those
    of ``processor``'s worker. Source: pull request 28496.
    """
    if isinstance(accepted, int):
        rows = slice(request, request + 1)
    else:
        stride = getattr(result, "speculative_num_draft_tokens", None)
        if stride is None:
            stride = processor.draft_worker.speculative_num_draft_tokens
        rows = slice(request * stride, request * stride + len(accepted))
    found: list[list[float]] = states[rows].cpu().tolist()
    return found


def hidden_states_to_end(request: Any) -> list[object]:
    """Return the states of a request's answer: those of its prompt, or one block per token up to its end.

    An answer of no tokens (``max_new_tokens`` 0) has the block of the prefill. Source: pull request 28496.
    """
    end = request.finished_len
    return list(request.hidden_states[: None if end is None else max(end, 1)])
