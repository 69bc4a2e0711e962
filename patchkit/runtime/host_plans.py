"""FlashInfer plans from a layout that the host has, where that is the plan that it makes of the device's."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger(__name__)

_PLANS = "patchkit_plans"
# Of what FlashInfer is called with: where queries and keys start, the keys' slots, what else is asked of each request.
_FIRST = 4
# What a wrapper's kernels read of the layout: of a prefill's wrapper, and of one for multi-latent attention.
_READ = (
    ("_qo_indptr_buf", "_paged_kv_indptr_buf", "_paged_kv_last_page_len_buf"),
    ("_qo_indptr_buf", "_kv_indptr_buf", "_kv_len_arr_buf"),
)


class Layout(NamedTuple):
    """Where each request's queries and keys start, and what else is asked of each; int32, on the host."""

    starts: torch.Tensor
    keys: torch.Tensor
    each: torch.Tensor


@dataclass
class _Plans:
    """What a wrapper's plans have come to."""

    by_host: bool | None = None
    """Whether a plan of the host's layout is the ordinary one; None until both were made and compared."""
    queued: torch.cuda.Event | None = None
    """Behind what the last plan sent to the GPU."""


def ends(lens: torch.Tensor) -> torch.Tensor:
    """Return where requests of ``lens`` (integer, shape [requests], on the host) start, and the last one's end."""
    offsets = torch.zeros(lens.shape[0] + 1, dtype=torch.int32)
    offsets[1:] = lens.cumsum(0)
    return offsets


class HostPlanner:
    """Stands for a wrapper in the tree's hands, and plans from the host's layout where that is known.

    FlashInfer takes the layout that it is handed to the host, and the host waits for each of these copies; of a
    layout that is there already it copies nothing back. The first plan of a wrapper is made of both and compared;
    where a FlashInfer refuses the host's or plans otherwise from it, the device's stays.
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
        """Plan multi-latent attention, or a prefill."""
        self._planned("plan", given, named)

    def _planned(self, method: str, given: tuple[object, ...], named: dict[str, object]) -> None:
        plan = getattr(self._wrapper, method)
        if len(given) < _FIRST or not all(isinstance(one, torch.Tensor) for one in given[:_FIRST]):
            plan(*given, **named)
            return
        starts, keys, slots, each = cast("tuple[torch.Tensor, ...]", given[:_FIRST])

        def made(layout: Layout) -> None:
            plan(layout.starts, layout.keys, slots, layout.each, *given[_FIRST:], **named)
            self._plans.queued = _behind(slots.device, self._plans.queued)

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
        # A plan leaves for the GPU from the wrapper's one pinned buffer, and this one would not wait for the last to
        # have left, as the copies of the other do. Its own layout is staged before the call returns.
        if self._plans.queued is not None:
            self._plans.queued.synchronize()
        made(host)

    def _is_same(self, by_host: Callable[[], None]) -> bool:
        """Tell whether the host's plan is what was just planned: the kernels' parameters, and the layout they read."""
        expected = self._left()
        if expected is None:
            return False
        info, read = list(expected[0]), [each.clone() for each in expected[1]]
        try:
            by_host()
        except (TypeError, ValueError, RuntimeError):
            _logger.warning("FlashInfer refuses to plan from lengths on the host.", exc_info=True)
            return False
        planned = self._left()
        same = planned is not None and list(planned[0]) == info
        same = same and planned is not None and all(map(torch.equal, planned[1], read))
        if not same:
            _logger.warning("FlashInfer plans otherwise from lengths on the host, which are left alone.")
        return same

    def _left(self) -> tuple[list[int], tuple[torch.Tensor, ...]] | None:
        """Return what the last plan left for the kernels, None where the wrapper does not tell."""
        info = getattr(self._wrapper, "_plan_info", None)
        for names in _READ:
            read = tuple(getattr(self._wrapper, name, None) for name in names)
            tensors = tuple(each for each in read if isinstance(each, torch.Tensor))
            if info is not None and len(tensors) == len(names):
                return info, tensors
        return None


def _behind(device: torch.device, event: torch.cuda.Event | None) -> torch.cuda.Event | None:
    """Return an event behind what is queued on the current stream; none where there is no stream."""
    if device.type != "cuda":
        return None
    event = event or torch.cuda.Event()
    event.record()
    return event
