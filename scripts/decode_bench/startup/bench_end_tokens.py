"""min_new_tokens without a tokenizer: the tokens that may not end a request are those of the model's configuration."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

PENALTY = "sglang.srt.sampling.penaltylib.min_new_tokens"
PARAMETERS = "sglang.srt.sampling.sampling_params"


def allow(module: ModuleType) -> None:
    """Let sglang's check of parameters, in the module passed, accept ``min_new_tokens`` without a tokenizer."""
    # Since 0.5.14; requests of a benchmark have no stop strings, which it refuses as well.
    vars(module)["raise_if_tokenizer_required"] = lambda *_, **__: None


def instrument(module: ModuleType) -> None:
    """Let sglang's penalty, in the module passed, ask requests without a tokenizer for end tokens."""
    penalty = module.BatchedMinNewTokensPenalizer
    prepare = penalty._prepare

    @functools.wraps(prepare)
    def prepared(self: Any) -> None:
        without = [request for request in self.orchestrator.reqs() if request.tokenizer is None]
        for request in without:
            ends = {*(request.eos_token_ids or ())}
            request.tokenizer = SimpleNamespace(
                eos_token_id=min(ends, default=0), additional_stop_token_ids=ends
            )
        prepare(self)
        # Other code of the scheduler decodes text if there is a tokenizer.
        for request in without:
            request.tokenizer = None

    penalty._prepare = prepared
