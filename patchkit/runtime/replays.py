"""A graph's replay says how many of its requests are padding, so that nobody has to count fill values on the host."""

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
    """Let backends know, while they plan it, that a graph of ``graph`` requests is replayed for ``batch`` of them.

    A backend behind wrappers, whose interface has no room for the count, asks by `replay_padding`. Source: 28579.
    """
    token = _replay.set(_Replay(graph, graph - batch))
    try:
        yield
    finally:
        _replay.reset(token)


def replay_padding(graph: int, counted: int | torch.Tensor | None) -> int | torch.Tensor:
    """Return how many of the ``graph`` requests that a backend plans for are padding.

    That is what the replay says, and ``counted``, from the mirror, where it says nothing of that many requests, as
    of the halves that two-batch overlap makes. A request of one token looks like padding in the mirror. RuntimeError
    where nobody knows. Source: pull request 28579.
    """
    said = _replay.get()
    if said is not None and said.requests == graph and not disabled("28579"):
        return said.padding
    if counted is None:
        raise RuntimeError(
            f"A graph of {graph} requests is replayed without the CPU mirror, and nothing says how many of them "
            "are padding: call the backend within patchkit_api.padded_replay(graph, batch), or keep the mirror by "
            "PATCHKIT_DISABLE=28579."
        )
    return counted
