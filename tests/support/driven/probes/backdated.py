"""Only in trees of main's form: lengths that batches of the overlap schedule read from the future map."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from sglang.srt.managers import overlap_utils
from sglang.srt.managers.overlap_utils import FutureMap
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from torch.overrides import TorchFunctionMode

from .batches import keep_mirror, make_batch
from .recorders import DeviceTensor, Events, on_device, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 24


class _Unpinned(TorchFunctionMode):
    """Allocates unpinned memory, because pinning needs a GPU."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **{name: value for name, value in (kwargs or {}).items() if name != "pin_memory"})


def _device_module(events: Events) -> SimpleNamespace:
    """Return a device module whose events and streams record all operations on them, including copies between them."""

    @contextmanager
    def entered(stream: Any) -> Iterator[None]:
        events.record.append(f"{stream.name} entered")
        yield
        events.record.append(f"{stream.name} left")

    current = events.stream("current")
    return SimpleNamespace(
        Event=lambda: events.event("published"),
        Stream=lambda: events.stream("copies"),
        stream=entered,
        current_stream=lambda _: current,
    )


def future_map(needed: bool, device: str, events: Events) -> FutureMap:
    """Return a map on a ``cuda``, ``hip`` or plain device, with the decision if it takes one."""
    overlap_utils._is_cuda, overlap_utils._is_hip = device == "cuda", device == "hip"
    module = _device_module(events)
    setattr(torch, "get_device_module", lambda _: module)  # noqa: B010
    keywords = {"needs_cpu_seq_lens": needed}
    parameters = inspect.signature(FutureMap.__init__).parameters
    with _Unpinned():
        return FutureMap(
            "cpu",
            SpeculativeAlgorithm.EAGLE,
            SimpleNamespace(req_to_token=torch.zeros(ROWS, 8)),
            **{name: value for name, value in keywords.items() if name in parameters},
        )


def resolves(needed: bool, device: str, steps: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Publish lengths and resolve batches, one after the other; return each batch's lengths afterwards.

    A step is ``("publish", {row: length})``, ``("resolve", rows)``, ``("idle", [])``, a batch of nothing, or
    ``("prefill", rows)``, a batch that has no future yet.
    """
    events = Events()
    made = future_map(needed, device, events)
    made.new_seq_lens_buf = on_device(list(range(1000, 1000 + ROWS)))
    results = []
    for act, subject in steps:
        events.record.clear()
        DeviceTensor.reads.clear()
        if act == "publish":
            made.publish(on_device(list(subject)), on_device(list(subject.values())))
            results.append({"waits": list(events.record), "reads": list(DeviceTensor.reads)})
            continue
        rows = list(subject)
        batch = make_batch(events, "a", {"lens": [7] * len(rows), "mirror": True, "sum": True})
        batch.req_pool_indices, batch.req_pool_indices_cpu = on_device(rows), torch.tensor(rows).long()
        batch.spec_info.future_indices = None if act == "prefill" else batch.req_pool_indices
        made.resolve_seq_lens_cpu(batch)
        results.append(
            {
                "lens": plain(batch.seq_lens),
                "mirror": plain(batch.seq_lens_cpu),
                "sum": batch.seq_lens_sum,
                "waits": list(events.record),
                "reads": list(DeviceTensor.reads),
            }
        )
    return results


def refreshes(needed: bool, lens: list[int], *, mode: str, sync: bool, mirror: bool) -> dict[str, Any]:
    """Advance a batch's lengths on the device, refresh the host's, and return these."""
    keep_mirror(needed)
    batch = make_batch(Events(), "a", {"lens": [7] * len(lens), "mirror": mirror, "sum": mirror})
    batch.forward_mode = ForwardMode[mode]
    batch.seq_lens = on_device(lens)
    batch.refresh_seq_lens_cpu(sync=sync)
    return {"mirror": plain(batch.seq_lens_cpu), "sum": batch.seq_lens_sum}
