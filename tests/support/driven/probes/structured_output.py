"""What the tree's own grammar manager does with a request for structured output, and a verify with its grammar."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.constrained import outlines_backend, reasoner_grammar_backend
from sglang.srt.constrained.base_grammar_backend import BaseGrammarBackend
from sglang.srt.constrained.grammar_manager import GrammarManager
from sglang.srt.speculative import spec_utils
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

from .decisions import bare


class _Other(BaseGrammarBackend):
    """The grammars of a backend that is not outlines."""


def _backend(kind: str) -> Any:
    outlines = bare(outlines_backend.OutlinesGrammarBackend)
    if kind == "reasoning":
        wrapper = bare(reasoner_grammar_backend.ReasonerGrammarBackend)
        wrapper.grammar_backend = outlines
        return wrapper
    return {"none": None, "outlines": outlines, "other": bare(_Other)}[kind]


def answered(kind: str, algorithm: str | None, schema: str | None) -> str:
    """Return what becomes of a request: ``compiled``, ``unconstrained``, or the error with which it is refused."""
    found = ["unconstrained"]

    def compiled(*_: Any) -> tuple[None, bool]:
        found.append("compiled")
        return None, False

    manager: Any = object.__new__(GrammarManager)
    backend = _backend(kind)
    if backend is not None:
        vars(backend).update(
            get_cached_or_future_value=compiled,
            get_request_grammar_key=lambda key, **_: key,
        )
    vars(manager).update(
        grammar_backend=backend,
        grammar_queue=[],
        _enable_strict_thinking=False,
        _get_request_thinking_budget=lambda _: None,
        scheduler=SimpleNamespace(spec_algorithm=SpeculativeAlgorithm.from_string(algorithm)),
    )
    parameters = dict.fromkeys(("json_schema", "regex", "ebnf", "structural_tag"), None)
    request = SimpleNamespace(
        sampling_params=SimpleNamespace(**{**parameters, "json_schema": schema}, ebnf_full_assistant=False),
        require_reasoning=False,
        origin_input_ids=[1],
        set_finish_with_abort=found.append,
    )
    manager.process_req_with_grammar(request)
    return found[-1]


def verified(allowed: list[int], drafts: list[int]) -> list[list[int]]:
    """Return the tokens that outlines forbids after each draft of a chain, where its grammar allows ``allowed``."""
    guide = SimpleNamespace(
        get_next_state=lambda state, _: state,
        get_next_instruction=lambda _: SimpleNamespace(tokens=allowed),
    )
    grammar = outlines_backend.OutlinesGrammar(guide, None)
    count = len(drafts)
    mask = grammar.allocate_vocab_mask(64, count, "cpu")
    following = torch.tensor([*range(1, count), -1])
    siblings = torch.full((count,), -1)
    spec_utils.traverse_tree(following, siblings, torch.tensor(drafts), grammar, mask)
    return [row.nonzero().flatten().tolist() for row in mask]
