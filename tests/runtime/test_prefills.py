from __future__ import annotations

from types import SimpleNamespace

import torch

from patchkit.runtime.prefills import tokens_after_prefill

VOCABULARY = 100


def request(prompt: list[int], end: int) -> SimpleNamespace:
    return SimpleNamespace(origin_input_ids=prompt, fill_ids=prompt[:end], vocab_size=VOCABULARY)


def test_each_chunk_has_its_own_next_token_and_the_sampled_ones_stay() -> None:
    sampled = torch.tensor([1, 2, 3], dtype=torch.int32)
    requests = [request([5, 6, 7], 2), request([8, 9], 2), request([4, 3, 2], 1)]
    following = tokens_after_prefill(requests, sampled)
    assert following.tolist() == [7, 2, 3]
    assert (following.dtype, sampled.tolist()) == (torch.int32, [1, 2, 3])


def test_no_tensor_is_made_where_every_prompt_is_whole() -> None:
    sampled = torch.tensor([1])
    assert tokens_after_prefill([request([5, 6], 2)], sampled) is sampled


def test_placeholders_of_an_image_are_not_read() -> None:
    sampled = torch.tensor([1])
    assert tokens_after_prefill([request([5, VOCABULARY], 1)], sampled) is sampled
