"""The questions that conditions of a tree ask about a model: the fact behind each, and every combination of answers."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Result = TypeVar("_Result")
_LIMIT = 256

MLA = "multi-head latent attention (MLA)"
LLAMA = "the architecture LlamaForCausalLM"
_UNGRAPHED = "an architecture that sglang runs without piecewise CUDA graphs"
ARCHITECTURES = frozenset({LLAMA, _UNGRAPHED})
"""The facts that name an architecture; the others name what a model has."""

# Conditions on a model, the fact that each one tests, and the answer with which the fact holds.
_FACTS = (
    (re.compile(r"attention_arch == .*MLA|use_mla_backend"), MLA, True),
    (re.compile(r"sliding_window_size is None"), "sliding-window layers", False),
    (re.compile(r"(?i)swa|sliding"), "sliding-window layers", True),
    (re.compile(r"is_local_attention_model"), "local attention", True),
    (re.compile(r"is_encoder_decoder"), "cross attention", True),
    (re.compile(r"model_is_mrope"), "multimodal rotary positions (M-RoPE)", True),
    (
        re.compile(r"is_multimodal$|is_piecewise_cuda_graph_disabled_model"),
        _UNGRAPHED,
        True,
    ),
    (re.compile(r"architectures\[0\] .*LlamaForCausalLM"), LLAMA, True),
)


@cache
def fact_of(question: str) -> tuple[str, bool] | None:
    """Return the fact that a condition tests, and the answer with which the fact holds; None if it tests none."""
    return next(((fact, answer) for pattern, fact, answer in _FACTS if pattern.search(question)), None)


def explore(run: Callable[[dict[str, bool]], _Result]) -> list[tuple[dict[str, bool], _Result]]:
    """Return the result of ``run`` for each combination of answers; it adds the questions to its argument."""
    pending: list[dict[str, bool]] = [{}]
    found: list[tuple[dict[str, bool], _Result]] = []
    while pending and len(found) < _LIMIT:
        given = pending.pop()
        answers = dict(given)
        found.append((answers, run(answers)))
        so_far = dict(given)
        for question in [new for new in answers if new not in given]:
            pending.append(so_far | {question: not answers[question]})
            so_far[question] = answers[question]
    return found
