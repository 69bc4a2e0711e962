"""Order streams without blocking the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def await_event(event: Any, *, on_host: bool) -> None:
    """Wait for ``event``: on the host if it reads the event's result, else on the current stream.

    On ROCm the host always waits: a wait of the stream made steps slower there (26672).
    """
    if on_host or torch.version.hip is not None:
        event.synchronize()
    else:
        event.wait()


def lens_to_device(lens: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Copy CPU ``lens`` (shape [batch]) to ``device`` without blocking the host.

    ``lens`` can be in pageable memory: it is staged before this returns. Pinning it first took seven times as long
    on the host while the GPU was busy.
    """
    return lens.to(device=device, non_blocking=True)


# Returns the current stream's handle, without an object made for it, as Triton queries it before every launch.
_handle: Callable[[int | None], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_handle(device: torch.device) -> object:
    """Return what identifies the stream of ``device`` that operations are queued on now, among its streams."""
    return _handle(device.index) if _handle and device.type == "cuda" else current_stream(device)


def current_stream(device: torch.device) -> torch.Stream:
    """Return the stream of ``device`` that operations are queued on now."""
    stream: torch.Stream = torch.get_device_module(device).current_stream(device)
    return stream


def order_behind(stream: torch.Stream, device: torch.device) -> None:
    """Make the current stream of ``device`` wait for what is queued on ``stream``, if that is another one."""
    handle: object = getattr(stream, "cuda_stream", stream) if _handle else stream
    if current_handle(device) != handle:
        current: Any = current_stream(device)
        current.wait_stream(stream)


def order_plan_stream(plan_stream: Any) -> None:
    """Make the plan stream, if there is one, wait for the current stream."""
    if plan_stream:
        plan_stream.wait_stream(torch.get_device_module(plan_stream.device).current_stream())
