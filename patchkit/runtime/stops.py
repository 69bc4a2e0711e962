"""End the output at the first token that completes a stop, however many tokens a step accepts."""

from __future__ import annotations

import re
from inspect import signature
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .shapes import GeneratedRequest

_ACCEPTED = "patchkit_accepted"


def mark_accepted(request: object, tokens: int) -> None:
    """Record on ``request`` that its step accepted its last ``tokens`` tokens. Source: pull request 23802."""
    setattr(request, _ACCEPTED, tokens)


def _window(request: GeneratedRequest) -> tuple[int, int]:
    """Return the first token in which a stop completed by the step can begin, and the first token of the step."""
    params, count = request.sampling_params, len(request.output_ids)
    accepted: int = getattr(request, _ACCEPTED, 1)
    longest = max(params.stop_str_max_len, params.stop_regex_max_len)
    return max(count - accepted - longest, 0), max(count - accepted, 0)


def tail_of_step(request: GeneratedRequest, tail: str) -> str:
    """Return the text in which to search the step's stops; for a step of one token, ``tail``.

    The text is empty if there are no stops, and also if the last tokens decode to nothing, which then does not mean
    that none of the step's stops is met. Source: pull request 23802.
    """
    params = request.sampling_params
    first, accepted = _window(request)
    has_stops = bool(params.stop_strs or params.stop_regex_strs)
    if not has_stops or len(request.output_ids) - accepted <= 1:
        return tail
    return request.tokenizer.decode(request.output_ids[first:])


def length_at_stop(request: GeneratedRequest, *, text: str = "", regex: str = "") -> int | None:
    """Return how many output tokens the answer has if it ends at ``text`` or ``regex``.

    The first token of the step that completes the stop is the last one; None if there is none. Source: pull request
    25980.
    """
    first, accepted = _window(request)
    for end in range(accepted + 1, len(request.output_ids) + 1):
        decoded = request.tokenizer.decode(request.output_ids[first:end])
        if text in decoded if text else re.search(regex, decoded):
            return end
    return None


def meets_stop(request: GeneratedRequest, tokens: int) -> bool:
    """Return whether a text stop comes before the token at which ``request`` is about to end.

    Its step accepted the last ``tokens`` tokens. Source: pull request 28802.
    """
    mark_accepted(request, tokens)
    params, end = request.sampling_params, request.finished_len
    if not all(0 <= token < request.vocab_size for token in request.output_ids[-tokens:]):
        return (
            False  # The scheduler replaces invalid tokens after this check, and a tokenizer may reject them.
        )
    lengths = [length_at_stop(request, text=text) for text in params.stop_strs]
    lengths += [length_at_stop(request, regex=regex) for regex in params.stop_regex_strs]
    return any(length is not None and length <= end for length in lengths)


def stops_by_limit(request: Any, tokens: int) -> bool:
    """Return whether a stop within ``max_new_tokens`` ends ``request``, whose step accepted the last ``tokens`` tokens.

    The request then has the stop's reason and length; if text and a token stop it, those of the first. Source: pull
    request 33758.
    """
    tokens_out, limit, size = request.output_ids, request.sampling_params.max_new_tokens, request.vocab_size
    within = tokens - (len(tokens_out) - limit)
    accepted = tokens_out[max(limit - within, 0) : limit]
    if within < 1 or size is None or not all(0 <= token < size for token in accepted):
        return False  # The tokenizer may reject such tokens.
    by_text = request._check_str_based_finish
    ends = []
    # The checks return one stop, which may be one behind the limit.
    request.output_ids = tokens_out[:limit]
    mark_accepted(request, within)
    try:
        for check, given in (
            (by_text, (within,) if signature(by_text).parameters else ()),
            (request._check_token_based_finish, (accepted,)),
        ):
            if check(*given) and request.finished_len is not None:
                ends.append((request.finished_len, request.finished_reason))
            request.finished_reason = request.finished_len = None
    finally:
        request.output_ids = tokens_out
    if ends:
        request.finished_len, request.finished_reason = min(ends, key=itemgetter(0))
    return bool(ends)
