"""Pass the number of padding requests of a graph's replay to backends, which then need not count them on the host."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from .switches import disabled

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch


class _Replay(NamedTuple):
    requests: int
    padding: int


_replay: ContextVar[_Replay | None] = ContextVar("replay", default=None)


@contextmanager
def padded_replay(graph: int, batch: int) -> Iterator[None]:
    """Set, for backends that plan in the body, that a graph of ``graph`` requests is replayed for ``batch`` of them.

    For backends in wrappers whose interface has no argument for it; they call `replay_padding`. Source: 28579.
    """
    token = _replay.set(_Replay(graph, graph - batch))
    try:
        yield
    finally:
        _replay.reset(token)


def replay_padding(graph: int, counted: int | torch.Tensor | None) -> int | torch.Tensor:
    """Return how many of the ``graph`` requests that a backend plans for are padding.

    The number of the current replay, else ``counted`` from the mirror: if the replay has another number of
    requests, such as for the halves of two-batch overlap. Requests of one token look like padding in the mirror.
    Raise RuntimeError if neither is known. Source: pull request 28579.
    """
    current = _replay.get()
    if current is not None and current.requests == graph and not disabled("28579"):
        return current.padding
    if counted is None:
        raise RuntimeError(
            f"A graph of {graph} requests is replayed without the CPU mirror, and the number of padding requests is "
            "unknown: call the backend within patchkit_api.padded_replay(graph, batch), or keep the mirror with "
            "PATCHKIT_DISABLE=28579."
        )
    return counted
