from __future__ import annotations

from types import SimpleNamespace

import torch

from patchkit.runtime.multimodal import positions_of_text, with_last_tokens


def test_the_targets_embeddings_stay_and_their_dtype_is_kept() -> None:
    embeds = torch.zeros(3, 2, dtype=torch.bfloat16)
    batch = SimpleNamespace(extend_start_loc=torch.tensor([0, 2]), extend_seq_lens=torch.tensor([2, 1]))
    found = with_last_tokens(
        embeds, lambda ids: ids[:, None].float().repeat(1, 2), torch.tensor([4, 5, 6]), batch
    )
    assert (found.tolist(), found.dtype) == ([[0, 0], [5, 5], [6, 6]], torch.bfloat16)
    assert not embeds.any()


def test_positions_are_of_one_type_with_images_and_without() -> None:
    positions = torch.tensor([4, 5, 9, 10], dtype=torch.int32)
    image = SimpleNamespace(mrope_position_delta=torch.tensor([[-2]]))
    for inputs, expected in (([None, None], [4, 5, 9, 10]), ([None, image], [4, 5, 7, 8])):
        found = positions_of_text(positions, inputs)
        assert (found.tolist(), found.dtype) == ([expected] * 3, torch.int64)
