"""What of an image an extend embeds, by where each request's extend starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import server_args
from sglang.srt.managers import mm_utils
from sglang.srt.model_executor.forward_batch_info import ForwardMode

from .recorders import DeviceTensor, on_device


class _Language(torch.nn.Module):
    """A language model that is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(64, 2)

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.embedding

    def forward(self, *_: Any, input_embeds: torch.Tensor, **__: Any) -> torch.Tensor:
        return input_embeds


def embedded(prefixes: list[int], tokens: int, images: list[bool], mirror: bool) -> dict[str, Any]:
    """Return where the extends of requests with an image start, for a draft-extend of ``tokens`` tokens each.

    ``mirror`` is whether the batch has the starts on the host.
    """
    arguments: dict[str, Any] = {}

    def embed(**given: Any) -> Any:
        arguments.update(starts=given["extend_prefix_lens"], lengths=given["extend_seq_lens"])
        return given["input_embedding"](given["input_ids"]), {}

    mm_utils.embed_mm_inputs = embed
    server = SimpleNamespace(enable_adaptive_dispatch_to_encoder=False, language_only=False)
    if not hasattr(mm_utils, "get_server_args"):
        server_args.set_global_server_args_for_scheduler(server)
    # Trees ask one or the other; the latest resolve what they are set to, and are asked alone.
    for ask in ("get_global_server_args", "get_disagg", "get_serving", "get_server_args"):
        if hasattr(mm_utils, ask):
            setattr(mm_utils, ask, lambda: server)
    count = len(prefixes)
    ids = torch.zeros(count * tokens, dtype=torch.int64)
    batch = SimpleNamespace(
        forward_mode=ForwardMode.DRAFT_EXTEND_V2,
        contains_mm_inputs=lambda: any(images),
        mm_inputs=[SimpleNamespace(mm_items=[]) if image else None for image in images],
        extend_prefix_lens=on_device(prefixes),
        extend_prefix_lens_cpu=prefixes if mirror else None,
        extend_seq_lens_cpu=[tokens] * count,
        input_embeds=None,
        replace_embeds=None,
        replace_positions=None,
        spec_algorithm=None,
    )
    DeviceTensor.reads.clear()
    mm_utils.general_mm_embed_routine(ids, batch, _Language(), positions=None)
    return arguments | {"reads": list(DeviceTensor.reads)}
