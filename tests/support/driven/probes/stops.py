"""Where the tree ends a request whose step accepted several tokens, and what of it reaches the user."""

from __future__ import annotations

import asyncio
from array import array
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from sglang.srt.managers.schedule_batch import Req
from sglang.srt.sampling.sampling_params import SamplingParams

from . import repeatable

EOS = 2


class _Tokenizer:
    """Token 10 is the first of its pieces, 11 the second, and so on."""

    eos_token_id = EOS
    additional_stop_token_ids: set[int] | None = None

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces

    def encode(self, text: str, **_: Any) -> list[int]:
        return [*text.encode()]

    def decode(self, tokens: Any) -> str:
        return "".join("" if token < len("0123456789") else self.pieces[token - 10] for token in tokens)


@repeatable
def finish(pieces: list[str], steps: list[list[int]], **params: Any) -> dict[str, Any]:
    """Give a request the tokens of each step until one ends it; ``grammar`` is a token at which its grammar ends.

    Returns how it ended, how many steps that took, and the answer's tokens.
    """
    ends_at = params.pop("grammar", None)
    vocabulary = params.pop("vocabulary", 1000)
    tokenizer = _Tokenizer(pieces)
    params = {"max_new_tokens": 1000} | params
    sampling = SamplingParams(**params)
    sampling.normalize(tokenizer)
    request = Req("", "", array("q", [0]), sampling, eos_token_ids={EOS}, vocab_size=vocabulary)
    request.tokenizer = tokenizer
    if ends_at is not None:
        request.grammar = SimpleNamespace(is_terminated=lambda: ends_at in request.output_ids)
    update = getattr(request, "update_finish_state", None) or request.check_finished
    taken = 0
    while taken < len(steps) and not request.finished():
        request.output_ids.extend(steps[taken])
        update(len(steps[taken]))
        taken += 1
    reason = request.finished_reason
    return {
        "reason": reason and reason.to_json(),
        "steps": taken,
        "tokens": [*request.output_ids_through_stop],
    }


@repeatable
def trimmed(output: Any, matched: Any, *, untrimmed: bool) -> Any:
    """Return what the detokenizer leaves of text or tokens that met a stop."""
    # What its module imports sets the policy of a loop that is not installed.
    with patch.object(asyncio, "set_event_loop_policy"):
        from sglang.srt.managers.detokenizer_manager import DetokenizerManager

    manager = object.__new__(DetokenizerManager)
    vars(manager).update(is_tool_call_parser_gpt_oss=False, tool_close_token_ids=frozenset())
    return manager.trim_matched_stop(output, {"matched": matched}, untrimmed)
