"""From which state a request's prefill starts: that of its cached prefix, or none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.layers.attention.mamba.mamba2_metadata import ForwardMetadata, Mamba2Metadata
from sglang.srt.managers import scheduler
from sglang.srt.managers.schedule_batch import ScheduleBatch

from . import tracked_states


def matched_and_turned_down(*, room: bool, in_session: bool = False) -> dict[str, list[int]]:
    """Match a request with a cached state in slot 9 and, without ``room``, reject it; it then matches nothing.

    The slot of a request ``in_session`` stays its own.

    Returns the slots of its own that its forward copies to and clears, and those that it copies from.
    """
    pool = tracked_states._pool()
    request = MagicMock(**vars(tracked_states._request()), session=MagicMock() if in_session else None)
    request.mamba_cow_src_index, request.mamba_needs_clear = None, False

    def match(_: Any) -> None:
        request.mamba_pool_idx = pool.mamba_allocator.alloc(1)[0]
        request.mamba_cow_src_index = torch.tensor([9])

    request.init_next_round_input = match
    adder = MagicMock(can_run_list=[], preempt_list=[], new_chunked_req=None)

    def add(req: Any, **_: Any) -> Any:
        if room:
            adder.can_run_list.append(req)
        return scheduler.AddReqResult.NO_TOKEN

    adder.add_one_req = add
    vars(scheduler)["PrefillAdder"] = lambda *_, **__: adder
    made = MagicMock(
        waiting_queue=[request],
        chunked_req=None,
        req_to_token_pool=pool,
        tree_cache=SimpleNamespace(req_to_token_pool=pool),
    )
    made.running_batch.batch_is_full, made.running_batch.reqs = False, []
    made.get_num_allocatable_reqs.return_value = made.max_prefill_bs = 1
    made.grammar_manager.has_waiting_grammars.return_value = False
    for name in ("enable_lora", "enable_hierarchical_cache", "enable_hicache_storage", "is_hybrid_swa"):
        setattr(made, name, False)
    made.enable_priority_preemption = made._should_delay_dflash_prefill_for_batching.return_value = False
    vars(scheduler)["ScheduleBatch"] = MagicMock()
    scheduler.Scheduler._get_new_batch_prefill_raw(made, None)
    pool.alloc([request])
    batch: Any = SimpleNamespace()
    ScheduleBatch._collect_deferred_mamba_cow_and_clear(batch, [request])
    own = request.mamba_pool_idx.item()
    noted = {
        "to": batch.mamba_cow_dst_indices,
        "cleared": batch.mamba_clear_indices,
        "from": batch.mamba_cow_src_indices,
    }
    result = {name: [] if slots is None else slots.tolist() for name, slots in noted.items()}
    return {"own": [own]} | result


def continued(prefixes: list[int], tracked: list[bool] | None) -> list[bool]:
    """Plan a prefill of two tokens after each of the cached ``prefixes``; return which requests continue a state."""
    count = len(prefixes)
    batch: Any = SimpleNamespace(
        extend_num_tokens=2 * count,
        extend_seq_lens_cpu=[2] * count,
        seq_lens=torch.tensor(prefixes) + 2,
        extend_prefix_lens=torch.tensor(prefixes),
        mamba_track_mask=None if tracked is None else torch.tensor(tracked),
        spec_info=None,
        forward_mode=SimpleNamespace(is_target_verify=lambda: False),
    )
    metadata = ForwardMetadata(
        query_start_loc=torch.arange(0, 2 * count + 1, 2), mamba_cache_indices=torch.arange(count)
    )
    mixed = Mamba2Metadata.prepare_mixed(metadata, 4, batch).mixed_metadata
    found: list[bool] = mixed.has_initial_states.tolist()
    return found
