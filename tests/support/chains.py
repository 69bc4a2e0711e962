"""A server that drafts one chain a request, and its batches; the first row of its pool is that of padding."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from support.captured import Capturing

if TYPE_CHECKING:
    import random

WIDTH, VOCABULARY, HIDDEN, ROWS, CONTEXT = 4, 17, 3, 9, 64
SIZES = [1, 2, 4]


class Mode(SimpleNamespace):
    """A batch's mode."""

    def is_decode(self) -> bool:
        return bool(self.decodes)


def chain(token: int, state: list[float], slots: list[int]) -> list[int]:
    """Return the tokens that a draft drafts behind the slots of a request."""
    found = [token]
    while len(found) < WIDTH - 1:
        found.append((found[-1] * 3 + round(sum(state)) + sum(slots)) % VOCABULARY)
    return found


def planned(table: torch.Tensor, batch: Any) -> list[list[int]]:
    """Return the slots that each request of a batch has."""
    lens, rows = batch.seq_lens.tolist(), batch.req_pool_indices.tolist()
    return [table[row, :length].tolist() for row, length in zip(rows, lens, strict=True)]


class Drafting(Capturing):
    """The parts of a worker that any graph of a draft has to do with."""

    # What plans the steps of a draft.
    steps: Any

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.arange(ROWS * CONTEXT, dtype=torch.int32).view(ROWS, CONTEXT) - CONTEXT
        self.table[0] = 0
        self.written: list[tuple[list[int], list[int]]] = []
        self.topk, self.plan_stream, self.speculative_num_draft_tokens = 1, None, WIDTH

    def drafts_of(self, batch: Any) -> torch.Tensor:
        """Draft as a tree's own graph does: it reads the batch, and moves its positions on."""
        self.written.append((batch.out_cache_loc.tolist(), batch.positions.tolist()))
        batch.positions.add_(WIDTH)
        given = batch.spec_info
        tokens, states = given.topk_index[:, 0].tolist(), given.hidden_states.tolist()
        return torch.tensor([chain(*each) for each in zip(tokens, states, self.steps.planned, strict=True)])

    def batch(self, requests: list[tuple[int, int]], draw: random.Random, **changes: Any) -> Any:
        """Return a batch of requests, each a row of the pool and a length."""
        rows, lens = (torch.tensor(each) for each in zip(*requests, strict=True))
        count = len(requests)

        def tokens() -> torch.Tensor:
            return torch.tensor([draw.randrange(VOCABULARY) for _ in requests])

        values = {
            "topk_index": tokens()[:, None],
            "hidden_states": torch.tensor([[draw.randrange(5) / 1 for _ in range(HIDDEN)]] * count),
            "bonus_tokens": tokens().int(),
        }
        made = SimpleNamespace(
            req_pool_indices=rows,
            seq_lens=lens,
            seq_lens_cpu=None,
            seq_lens_sum=None,
            forward_mode=Mode(decodes=True),
            global_num_tokens=None,
            spec_info=SimpleNamespace(**values),
        )
        for path, value in changes.items():
            owner, _, name = path.rpartition("__")
            setattr(getattr(made, owner) if owner else made, name, value)
        return made
