"""What the tree's own draft models embed of a prompt with images."""

from __future__ import annotations

import importlib
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from . import repeatable


class _EmbeddedError(Exception):
    """The model has embedded its input."""


def _layer(*given: Any) -> None:
    """Take the embeddings: a model's first tensor of that dtype."""
    raise _EmbeddedError(
        next(each for each in given if each is not None and each.dtype == torch.float32).tolist()
    )


@repeatable
def embedded(model: str, lengths: list[int]) -> Any:
    """Return what a prefill of prompts of these lengths embeds, with the target's embeddings and the tokens read.

    ``model`` is the module and name of the draft. Its embedding of a token is the token; the target's are negative.
    """
    module, _, name = model.partition(".")
    draft = attrgetter(name)(importlib.import_module(f"sglang.srt.models.{module}"))

    def embed(tokens: torch.Tensor) -> torch.Tensor:
        return tokens.float().unsqueeze(1)

    fake = SimpleNamespace(
        embed_tokens=embed,
        model=SimpleNamespace(embed_tokens=embed),
        quant_config=None,
        is_mrope_enabled=False,
        pre_fc_norm_embedding=_layer,
        midlayer=_layer,
        layers=[_layer],
    )
    tokens = sum(lengths)
    ends = torch.tensor(lengths).cumsum(0)
    batch = SimpleNamespace(
        mm_input_embeds=-torch.arange(1.0, tokens + 1).unsqueeze(1),
        forward_mode=ForwardMode.EXTEND,
        contains_mm_inputs=lambda: True,
        extend_start_loc=(ends - torch.tensor(lengths)).to(torch.int32),
        extend_seq_lens=torch.tensor(lengths, dtype=torch.int32),
        spec_info=SimpleNamespace(hidden_states=torch.zeros(tokens, 1, dtype=torch.float64)),
    )
    ids, places = torch.arange(1, tokens + 1), torch.arange(tokens)
    try:
        draft.forward(fake, ids, places, batch)
    except _EmbeddedError as found:
        (rows,) = found.args
        return [int(value) for (value,) in rows]
    raise AssertionError(f"{model} has read nothing")
