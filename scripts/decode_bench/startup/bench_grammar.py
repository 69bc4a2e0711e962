"""Structured output without a tokenizer: a request's regular expression is the number of even tokens that it allows.

Such a request ends inside a batch at a token that the scheduler chooses, not the model.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

# Environment variable that enables these grammars in an engine.
GRAMMAR = "PATCHKIT_BENCH_GRAMMAR"
MANAGER = "sglang.srt.constrained.grammar_manager"
# Bits of 32 tokens, those with even ids set.
_EVEN = 0x55555555
_BITS = 32


def instrument(module: ModuleType) -> None:
    """Give sglang's grammar manager, in the module passed, a backend that needs no tokenizer."""
    import torch
    from sglang.srt.constrained import base_grammar_backend as base

    class Grammar(base.BaseGrammarObject):  # type: ignore[misc]
        def __init__(self, length: int) -> None:
            super().__init__()
            self.length, self.taken = length, 0

        def accept_token(self, token: int) -> None:
            self.taken += 1

        def rollback(self, k: int) -> None:
            self.taken -= k

        def is_terminated(self) -> bool:
            return self.taken >= self.length

        def copy(self) -> Grammar:
            return Grammar(self.length)

        def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
            return torch.full((batch_size, -(-vocab_size // _BITS)), -1, dtype=torch.int32)

        def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
            vocab_mask[idx] = _EVEN

        @staticmethod
        def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
            return vocab_mask.to(device, non_blocking=True)

        @staticmethod
        def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
            places = torch.arange(_BITS, device=vocab_mask.device, dtype=torch.int32)
            allowed = (vocab_mask.unsqueeze(-1) >> places & 1).flatten(1)[:, : logits.shape[-1]]
            logits.masked_fill_(allowed == 0, float("-inf"))

    class Backend(base.BaseGrammarBackend):  # type: ignore[misc]
        def get_cached_or_future_value(self, key: tuple[str, str], *_: Any) -> tuple[Grammar, bool]:
            return Grammar(int(key[1])), True

    made = module.GrammarManager.__init__

    @functools.wraps(made)
    def init(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        self.grammar_backend = Backend()

    module.GrammarManager.__init__ = init
