"""What a v2 worker gives its draft to read in a prefill."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.managers import schedule_batch
from sglang.srt.speculative import eagle_worker_v2


class _ReadError(Exception):
    """The input is made."""


def _stop(*_: Any, **__: Any) -> None:
    raise _ReadError


def draft_input(requests: list[dict[str, Any]], sampled: list[int], *, vocabulary: int) -> dict[str, Any]:
    """Return the tokens that the draft reads, and the sampled ones as they are then.

    A request has a ``prompt``, ``output`` tokens behind it, and a chunk of these from ``start`` up to ``end``.
    """
    made = [
        SimpleNamespace(
            origin_input_ids=request["prompt"],
            output_ids=request.get("output", []),
            fill_ids=(request["prompt"] + request.get("output", []))[: request["end"]],
            fill_len=request["end"],
            vocab_size=vocabulary,
        )
        for request in requests
    ]
    chunked = next((each for each in made if each.fill_len < len(each.origin_input_ids)), None)
    following = getattr(schedule_batch, "_compute_chunked_req_next_prompt_token", None)
    lengths = [request["end"] - request["start"] for request in requests]
    batch = SimpleNamespace(
        forward_mode=SimpleNamespace(is_idle=lambda: False),
        input_ids=torch.tensor(
            [token for each, of in zip(made, requests, strict=True) for token in each.fill_ids[of["start"] :]]
        ),
        extend_lens=lengths,
        extend_seq_lens=lengths,
        seq_lens=torch.tensor([request["end"] for request in requests]),
        reqs=made,
        chunked_req=chunked,
        chunked_req_next_prompt_token=following and following(chunked, vocabulary),
    )
    eagle_worker_v2.EagleDraftInput = _stop
    eagle_worker_v2.ForwardBatch.init_new = _stop
    tokens = torch.tensor(sampled)
    with suppress(_ReadError):
        eagle_worker_v2.EagleDraftWorker._draft_extend_for_prefill(MagicMock(), batch, None, tokens)
    return {"read": batch.input_ids.tolist(), "sampled": tokens.tolist()}
