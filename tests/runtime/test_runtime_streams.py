from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from patchkit.runtime.streams import await_event, lens_to_device, order_plan_stream


class Event:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def synchronize(self) -> None:
        self.calls.append("the host waits")

    def wait(self) -> None:
        self.calls.append("the stream waits")


@pytest.mark.parametrize(("on_host", "waits"), [(True, "the host waits"), (False, "the stream waits")])
def test_who_waits_for_an_event(on_host: bool, waits: str) -> None:
    event = Event()
    await_event(event, on_host=on_host)
    assert event.calls == [waits]


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_lens_on_a_device_without_streams_are_the_same(device: object) -> None:
    lens = torch.tensor([3, 1, 2], dtype=torch.int32)
    moved = lens_to_device(lens, device)
    assert torch.equal(moved, lens)
    assert moved.dtype == torch.int32


class PageableLens:
    """Lengths in pageable memory, a copy of which the host would wait for."""

    def __init__(self) -> None:
        self.copies: list[tuple[torch.device, bool]] = []

    def to(self, *, device: torch.device) -> str:
        self.copies.append((device, False))
        return "lens on the device"

    def pin_memory(self) -> SimpleNamespace:
        def to(*, device: torch.device, non_blocking: bool) -> str:
            self.copies.append((device, non_blocking))
            return "lens on the device"

        return SimpleNamespace(to=to)


def test_lens_go_to_a_gpu_from_pinned_memory_and_the_host_does_not_wait() -> None:
    lens = PageableLens()
    assert lens_to_device(lens, "cuda:1") == "lens on the device"
    assert lens.copies == [(torch.device("cuda:1"), True)]


def test_lens_are_copied_as_they_are_where_the_host_waits_anyway() -> None:
    lens = PageableLens()
    assert lens_to_device(lens, "cuda:1", host_waits=True) == "lens on the device"
    assert lens.copies == [(torch.device("cuda:1"), False)]


class PlanStream:
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.waited_for: list[object] = []

    def wait_stream(self, stream: object) -> None:
        self.waited_for.append(stream)


def test_the_plan_stream_waits_for_the_current_one() -> None:
    plan = PlanStream()
    order_plan_stream(plan)
    assert plan.waited_for == [torch.cpu.current_stream()]


def test_a_server_without_a_plan_stream_orders_nothing() -> None:
    order_plan_stream(None)
