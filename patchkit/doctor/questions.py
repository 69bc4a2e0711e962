"""The questions that conditions of a tree ask about a model, and the fact behind each."""

from __future__ import annotations

import re
from functools import cache

from patchkit.doctor.execution.kinds import CROSS, LLAMA, LOCAL, MLA, MROPE, SLIDING, UNGRAPHED

ARCHITECTURES = frozenset({LLAMA, UNGRAPHED})
"""The facts that name an architecture; the others name what a model has."""

# Conditions on a model, the fact that each one tests, and the answer with which the fact holds.
_FACTS = (
    (re.compile(r"attention_arch == .*MLA|use_mla_backend"), MLA, True),
    (re.compile(r"sliding_window_size is None"), SLIDING, False),
    (re.compile(r"(?i)swa|sliding"), SLIDING, True),
    (re.compile(r"is_local_attention_model"), LOCAL, True),
    (re.compile(r"is_encoder_decoder"), CROSS, True),
    (re.compile(r"model_is_mrope"), MROPE, True),
    (
        re.compile(r"is_multimodal$|is_piecewise_cuda_graph_disabled_model"),
        UNGRAPHED,
        True,
    ),
    (re.compile(r"architectures\[0\] .*LlamaForCausalLM"), LLAMA, True),
)


@cache
def fact_of(question: str) -> tuple[str, bool] | None:
    """Return the fact that a condition tests, and the answer with which the fact holds; None if it tests none."""
    return next(((fact, answer) for pattern, fact, answer in _FACTS if pattern.search(question)), None)
