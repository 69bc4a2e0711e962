"""Let FlashInfer plan from a layout on the host, where the plan is the same as from the device's."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger(__name__)

_PLANS = "patchkit_plans"
# FlashInfer's first arguments: offsets of queries and keys, the keys' slots, and one value per request.
_FIRST = 4
# The buffers of the layout that a wrapper's kernels read: for a prefill, and for MLA.
_READ = (
    ("_qo_indptr_buf", "_paged_kv_indptr_buf", "_paged_kv_last_page_len_buf"),
    ("_qo_indptr_buf", "_kv_indptr_buf", "_kv_len_arr_buf"),
)


class Layout(NamedTuple):
    """The offsets of each request's queries and keys, and one value per request; int32, on the host."""

    starts: torch.Tensor
    keys: torch.Tensor
    each: torch.Tensor


@dataclass
class _Plans:
    """The state of a wrapper's plans."""

    by_host: bool | None = None
    """Whether the plan from the host is the same as from the device; None before the comparison."""
    queued: torch.cuda.Event | None = None
    """Recorded after the copies of the last plan to the GPU."""


def ends(lens: torch.Tensor) -> torch.Tensor:
    """Return the int32 offsets and the last end of requests of ``lens`` (integer, shape [requests], on the host)."""
    offsets = torch.zeros(lens.shape[0] + 1, dtype=torch.int32)
    offsets[1:] = lens.cumsum(0)
    return offsets


class HostPlanner:
    """A wrapper that plans from a layout on the host if that is known, and forwards everything else.

    FlashInfer copies a layout on the device to the host, which waits for each copy; a layout on the host needs
    none. The first plan of a wrapper is made from both and compared. If FlashInfer rejects the host's layout or its
    plan differs, the device's is used from then on.
    """

    def __init__(self, wrapper: object, layout: Layout | None) -> None:
        if not hasattr(wrapper, _PLANS):
            setattr(wrapper, _PLANS, _Plans())
        self._wrapper, self._layout = wrapper, layout
        self._plans: _Plans = getattr(wrapper, _PLANS)

    def __getattr__(self, name: str) -> object:
        return getattr(self._wrapper, name)

    def begin_forward(self, *given: object, **named: object) -> None:
        """Plan a prefill."""
        self._planned("begin_forward", given, named)

    def plan(self, *given: object, **named: object) -> None:
        """Plan MLA, or a prefill."""
        self._planned("plan", given, named)

    def _planned(self, method: str, given: tuple[object, ...], named: dict[str, object]) -> None:
        plan = getattr(self._wrapper, method)
        if len(given) < _FIRST or not all(isinstance(one, torch.Tensor) for one in given[:_FIRST]):
            plan(*given, **named)
            return
        starts, keys, slots, each = cast("tuple[torch.Tensor, ...]", given[:_FIRST])

        def made(layout: Layout) -> None:
            plan(layout.starts, layout.keys, slots, layout.each, *given[_FIRST:], **named)
            self._plans.queued = behind(slots.device, self._plans.queued)

        self._plan(Layout(starts, keys, each), made)

    def _plan(self, device: Layout, made: Callable[[Layout], None]) -> None:
        plans, host = self._plans, self._layout
        if host is None or plans.by_host is False or host.starts.shape != device.starts.shape:
            made(device)
        elif plans.by_host:
            self._plan_by_host(host, made)
        else:
            made(device)
            plans.by_host = self._is_same(lambda: self._plan_by_host(host, made))
            if not plans.by_host:
                made(device)

    def _plan_by_host(self, host: Layout, made: Callable[[Layout], None]) -> None:
        # The wrapper has one pinned buffer from which a plan is copied to the GPU. The last copy must be done before
        # the buffer is written again; planning from the device waits for that implicitly.
        if self._plans.queued is not None:
            self._plans.queued.synchronize()
        made(host)

    def _is_same(self, by_host: Callable[[], None]) -> bool:
        """Return whether planning from the host gives the last plan again: kernel parameters and layout buffers."""
        expected = self._left()
        if expected is None:
            return False
        info, read = list(expected[0]), [each.clone() for each in expected[1]]
        try:
            by_host()
        except (TypeError, ValueError, RuntimeError):
            _logger.warning(
                "FlashInfer cannot plan from lengths on the host; using the device's.", exc_info=True
            )
            return False
        planned = self._left()
        same = planned is not None and list(planned[0]) == info
        same = same and planned is not None and all(map(torch.equal, planned[1], read))
        if not same:
            _logger.warning("FlashInfer's plan from lengths on the host differs; using the device's.")
        return same

    def _left(self) -> tuple[list[int], tuple[torch.Tensor, ...]] | None:
        """Return the result of the last plan for the kernels, or None if the wrapper does not expose it."""
        info = getattr(self._wrapper, "_plan_info", None)
        for names in _READ:
            read = tuple(getattr(self._wrapper, name, None) for name in names)
            tensors = tuple(each for each in read if isinstance(each, torch.Tensor))
            if info is not None and len(tensors) == len(names):
                return info, tensors
        return None


def behind(device: torch.device, event: torch.cuda.Event | None) -> torch.cuda.Event | None:
    """Return an event recorded on the current stream, None on the CPU."""
    if device.type != "cuda":
        return None
    event = event or torch.cuda.Event()
    event.record()
    return event
