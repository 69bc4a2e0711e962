"""Order between streams without a host wait: what must come first is queued first, and the host goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .shapes import Event, PlanStream


def await_event(event: Event, *, on_host: bool) -> None:
    """Wait for ``event``: on the host where it reads what the event stands for, else on the current stream."""
    if on_host:
        event.synchronize()
    else:
        event.wait()


def lens_to_device(lens: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Return CPU ``lens`` (shape [batch]) on ``device`` by a copy that the host does not wait for.

    ``lens`` may be in pageable memory: it is staged before this returns. Pinning it first took the host seven
    times as long while the GPU was busy.
    """
    return lens.to(device=device, non_blocking=True)


def order_plan_stream(plan_stream: PlanStream | None) -> None:
    """Have the plan stream, where there is one, wait for what is queued on the current stream."""
    if plan_stream:
        plan_stream.wait_stream(torch.get_device_module(plan_stream.device).current_stream())
