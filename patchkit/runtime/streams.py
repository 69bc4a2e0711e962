"""Order between streams without a host wait: what must come first is queued first, and the host goes on."""

from __future__ import annotations

from typing import Any

import torch


def await_event(event: Any, *, on_host: bool) -> None:
    """Wait for ``event``: on the host where it reads what the event stands for, else on the current stream."""
    if on_host:
        event.synchronize()
    else:
        event.wait()


def lens_to_device(lens: torch.Tensor, device: Any, *, host_waits: bool = False) -> torch.Tensor:
    """Return CPU ``lens`` (shape [batch]) on ``device`` by a copy that the host does not wait for.

    A copy from pageable memory waits for everything queued before it, so the source is pinned first. That
    costs more than it saves where ``host_waits`` for the device anyway: there the copy is a plain one.
    """
    target = torch.device(device)
    if host_waits or target.type != "cuda":
        return lens.to(device=target)
    return lens.pin_memory().to(device=target, non_blocking=True)


def order_plan_stream(plan_stream: Any) -> None:
    """Have the plan stream, where there is one, wait for what is queued on the current stream."""
    if plan_stream:
        plan_stream.wait_stream(torch.get_device_module(plan_stream.device).current_stream())
