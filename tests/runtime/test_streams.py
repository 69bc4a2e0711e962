from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from patchkit.runtime import streams
from patchkit.runtime.streams import await_event, lens_to_device, order_behind, order_plan_stream


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


def test_on_rocm_the_host_waits_for_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    event = Event()
    await_event(event, on_host=False)
    assert event.calls == ["the host waits"]


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_lens_on_a_device_without_streams_are_the_same(device: torch.device | str) -> None:
    lens = torch.tensor([3, 1, 2], dtype=torch.int32)
    moved = lens_to_device(lens, device)
    assert torch.equal(moved, lens)
    assert moved.dtype == torch.int32


class Lens:
    """Lengths that take down how they are copied."""

    def __init__(self) -> None:
        self.copies: list[tuple[object, bool]] = []

    def to(self, *, device: object, non_blocking: bool) -> str:
        self.copies.append((device, non_blocking))
        return "lens on the device"


def test_lens_go_to_a_gpu_and_the_host_does_not_wait() -> None:
    lens: Any = Lens()
    assert lens_to_device(lens, "cuda:1") == "lens on the device"
    assert lens.copies == [("cuda:1", True)]


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


class CudaStream:
    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle
        self.waited_for: list[object] = []

    def wait_stream(self, stream: object) -> None:
        self.waited_for.append(stream)


@pytest.mark.parametrize(("handle", "waits"), [(7, False), (8, True)])
def test_a_stream_of_a_gpu_waits_for_another_but_not_for_itself(
    monkeypatch: pytest.MonkeyPatch, handle: int, waits: bool
) -> None:
    current, known = CudaStream(7), CudaStream(handle)
    monkeypatch.setattr(streams, "_handle", lambda index: current.cuda_stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    order_behind(cast("torch.Stream", known), torch.device("cuda:0"))
    assert current.waited_for == [known] * waits
