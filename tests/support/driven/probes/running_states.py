"""Which Mamba state a request or the cache gets of a slot that the running forward still writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from sglang.srt.managers import scheduler
from sglang.srt.managers.scheduler import Scheduler

from . import tracked_states
from .decisions import bare

_WRITTEN = 77


class _ForwardStream(torch.cpu.Stream):
    """What runs on it is done once another stream has waited for it."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[Any] = []

    def finish(self) -> None:
        while self.running:
            self.running.pop()()


def _started(*, overlap: bool) -> tuple[Any, _ForwardStream]:
    """Return the pool of a scheduler that the tree's own code has set up, and the stream of its forwards."""
    pool, stream = tracked_states._pool(), _ForwardStream()
    torch.cpu.Stream.wait_stream = lambda _, other: other.finish()  # type: ignore[assignment,method-assign]
    vars(scheduler)["FutureMap"] = MagicMock()
    made = bare(Scheduler)
    vars(made).update(
        device="cpu",
        forward_stream=stream,
        req_to_token_pool=pool,
        enable_overlap=overlap,
        max_running_requests=4,
        chunked_prefill_size=8,
        model_config=SimpleNamespace(context_len=64),
        spec_algorithm=None,
    )
    made.init_overlap()
    tracked_states._number(pool.mamba_pool)
    return pool, stream


def _run(pool: Any, stream: _ForwardStream, slot: int) -> None:
    """Launch a forward that writes a slot's state, and has not done so yet."""
    cache = pool.mamba_pool.mamba_cache

    def write() -> None:
        cache.conv[0][:, slot] = cache.temporal[:, slot] = _WRITTEN

    stream.running.append(write)


def _state(pool: Any, slot: int) -> list[float]:
    cache = pool.mamba_pool.mamba_cache
    return sorted({*cache.conv[0][:, slot].flatten().tolist(), *cache.temporal[:, slot].flatten().tolist()})


def of_a_new_request(*, overlap: bool = True) -> dict[str, Any]:
    """Give a slot that the forward still writes for a finished request to a new one; return the state in it then."""
    pool, stream = _started(overlap=overlap)
    finished, new = tracked_states._request(), tracked_states._request()
    pool.alloc([finished])
    slot = finished.mamba_pool_idx.item()
    _run(pool, stream, slot)
    pool.free_mamba_cache(finished)
    # The pool gives out first what has been free for longest.
    free = pool.mamba_pool.free_slots
    pool.mamba_pool.free_slots = torch.cat([free[free == slot], free[free != slot]])
    pool.alloc([new])
    waited = not stream.running
    stream.finish()
    assert new.mamba_pool_idx.item() == slot
    return {"state": _state(pool, slot), "waited": waited}


def of_a_copy(*, forked: bool) -> dict[str, Any]:
    """Copy the state that the forward writes, to a slot of the cache's own if it is ``forked``; return the copy."""
    pool, stream = _started(overlap=True)
    _run(pool, stream, 3)
    states, source = pool.mamba_pool, torch.tensor([3])
    if forked:
        copy = states.fork_from(source)
    else:
        copy = torch.tensor([5])
        states.copy_from(source, copy)
    waited = not stream.running
    stream.finish()
    return {"state": _state(pool, copy.item()), "waited": waited}
