"""What is the same in every step: made once a size, never during a capture, and never where that cannot be asked."""

from __future__ import annotations

import pytest
import torch

from patchkit.runtime import constants
from patchkit.runtime.constants import made_once

GPU = torch.device("cuda", 0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, torch.device]]:
    """What was made, by rows, width and device."""
    monkeypatch.setattr(constants, "_made", {})
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return []


def test_it_is_made_once_for_all_batches_up_to_a_power_of_two(
    calls: list[tuple[int, int, torch.device]],
) -> None:
    def make(*size: object) -> object:
        calls.append(size)  # type: ignore[arg-type]
        return object()

    of_five = made_once(make, 5, 3, GPU)
    assert made_once(make, 8, 3, GPU) is of_five is not None
    assert made_once(make, 9, 3, GPU) is not of_five
    assert made_once(make, 5, 4, GPU) is not of_five
    assert made_once(make, 1, 3, torch.device("cpu")) is not of_five
    assert calls == [(8, 3, GPU), (16, 3, GPU), (8, 4, GPU), (1, 3, torch.device("cpu"))]


@pytest.mark.usefixtures("calls")
def test_a_capture_reads_what_is_there_and_makes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*_: object) -> object:
        return object()

    before = made_once(make, 4, 1, GPU)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert made_once(make, 3, 1, GPU) is before
    assert made_once(make, 5, 1, GPU) is None
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert made_once(make, 5, 1, GPU) is not None


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("kind", ["npu", "xpu", "musa"])
def test_a_device_without_a_query_for_captures_gets_nothing(kind: str) -> None:
    class Device:
        type = kind

    assert made_once(lambda *_: object(), 4, 1, Device()) is None  # type: ignore[arg-type]
