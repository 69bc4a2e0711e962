"""The pages that a speculating request has at its end, and what its release gives back."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.mem_cache import common
from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator
from sglang.srt.speculative import eagle_info_v2, spec_utils

from .batches import make_batch
from .lengths import set_server
from .recorders import Events

PAGES = 64


def taken(page: int, prompt: int, steps: int, seed: int) -> list[int]:
    """Return how many tokens' slots are taken before and after the end of a request of so many steps.

    Each step accepts 1 to 4 tokens.
    """
    draw = random.Random(seed)
    server = set_server(page_size=page, strip_thinking_cache=False)
    allocator: Any = PagedTokenToKVPoolAllocator(
        page * PAGES, page, torch.float16, "cpu", SimpleNamespace(), need_sort=False
    )
    rows = torch.zeros((4, page * PAGES), dtype=torch.int64)
    pool = SimpleNamespace(req_to_token=rows, free=lambda _: None)

    def assign(indices: Any, table: Any, start: Any, end: Any, slots: Any, *_: Any) -> None:
        table[int(indices[0]), int(start[0]) : int(end[0])] = slots.to(table.dtype)

    spec_utils.assign_req_to_token_pool_func = assign
    eagle_info_v2.assign_req_to_token_pool_func = assign
    eagle_info_v2.get_last_loc = common.get_last_loc = lambda table, indices, lens: table[indices, lens - 1]
    common.get_global_server_args = lambda: server
    tree: Any = SimpleNamespace(
        token_to_kv_pool_allocator=allocator,
        req_to_token_pool=pool,
        supports_swa=lambda: False,
        supports_mamba=lambda: False,
        is_chunk_cache=lambda: True,
        cache_finished_req=lambda request, **_: allocator.free(
            rows[0, : Req.pop_committed_kv_cache(request)]
        ),
    )
    first = torch.tensor([prompt])
    none = torch.tensor([0])
    rows[0, :prompt] = allocator.alloc_extend(none, none, first, first, torch.tensor([-1]), prompt)
    batch = make_batch(Events(), "a", {"lens": [prompt], "mirror": True, "sum": True})
    batch.device, batch.tree_cache = "cpu", tree
    batch.token_to_kv_pool_allocator, batch.req_to_token_pool = allocator, pool
    batch.req_pool_indices = torch.tensor([0])
    (request,) = batch.reqs
    vars(request).update(
        kv_allocated_len=prompt,
        kv_committed_len=prompt,
        decode_batch_idx=0,
        kv_committed_freed=False,
        kv_overallocated_freed=False,
        req_pool_idx=0,
    )
    for name in ("pop_overallocated_kv_cache", "_cache_commit_len"):
        setattr(request, name, getattr(Req, name).__get__(request))
    for _ in range(steps):
        committed = request.kv_committed_len
        batch.spec_info.prepare_for_decode(batch)
        request.kv_committed_len = committed + draw.randint(1, 4)
    before = page * PAGES - int(allocator.available_size())
    common.release_kv_cache(request, tree)
    return [before, page * PAGES - int(allocator.available_size())]
