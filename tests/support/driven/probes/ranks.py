"""The drafts that one of several ranks accepts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt import distributed
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative import eagle_utils

_TOKENS = 4


def verified(own: int, first: int, *, rocm: bool) -> list[list[int]]:
    """Verify greedily on a rank that decides ``own`` where the first rank decides ``first``: numbers of any meaning.

    Returns the tokens, how many are accepted, and which.
    """
    if hasattr(eagle_utils, "eagle_sample"):
        module: Any = eagle_utils
        sample = module.eagle_sample
    else:
        from sglang.srt.speculative import eagle_info_v2

        module = eagle_info_v2
        sample = module.EagleVerifyInputV2Mixin.sample

    def decide(predicts: Any, accept_index: Any, accept_token_num: Any, **_: Any) -> tuple[Any, ...]:
        decided = predicts, accept_index, accept_token_num
        for each in decided:
            each.fill_(own)
        return decided

    ranks = SimpleNamespace(world_size=2, broadcast=lambda tensor, src: tensor.fill_(first + src))
    vars(module).update(verify_tree_greedy_func=decide, get_tp_group=lambda: ranks, _is_hip=rocm)
    vars(distributed)["get_tp_group"] = lambda: ranks
    torch.version.hip = "6.4" if rocm else None
    drafts: Any = SimpleNamespace(
        draft_token=torch.zeros(_TOKENS, dtype=torch.int64),
        draft_token_num=_TOKENS,
        max_tree_depth=_TOKENS,
        spec_steps=_TOKENS - 1,
        retrieve_index=None,
        retrieve_next_token=None,
        retrieve_next_sibling=None,
        topk=1,
        tree_topk=1,
    )
    sampling = SimpleNamespace(
        is_all_greedy=True, acc_additive_penalties=None, acc_scaling_penalties=None, logit_bias=None
    )
    batch = SimpleNamespace(
        forward_mode=ForwardMode.TARGET_VERIFY,
        seq_lens=torch.tensor([8]),
        sampling_info=sampling,
        input_ids=torch.zeros(_TOKENS, dtype=torch.int64),
        device="cpu",
    )
    outcome = sample(drafts, batch, SimpleNamespace(next_token_logits=torch.zeros(_TOKENS, 8)))
    return [each.flatten().tolist() for each in outcome[:3]]
