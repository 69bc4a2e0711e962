"""Graphs that run what was captured again, and the server that captures them."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Graph:
    """Runs what was captured again, into the same results."""

    def __init__(self) -> None:
        self.run: Any = None
        self.left: Any = None
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        for into, found in zip(self.left, self.run(), strict=True):
            into.copy_(found.clone())


class Capturing:
    """A server, one capture of which may fail, and each part of which may be another."""

    draft_runner: Any

    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        self.fails_at = 0
        self.failure: Exception = RuntimeError("out of memory")

    def change(self, changes: dict[str, Any]) -> None:
        """Set attributes by their paths."""
        for path, value in changes.items():
            owner: Any = self
            *names, last = path.split("__")
            for name in names:
                owner = getattr(owner, name)
            setattr(owner, last, value)

    def capture(self, graph: Graph, _pool: object, _stream: object, run: Any) -> Any:
        if len(self.graphs) + 1 == self.fails_at:
            raise self.failure
        graph.run, graph.left = run, run()
        self.graphs.append(graph)
        return graph.left

    def time(self) -> list[tuple[str, int]]:
        """Time replays from now on; return the list of what was timed: its category, and the graphs replayed in it."""
        timed: list[tuple[str, int]] = []

        @contextmanager
        def wrap(metadata: dict[str, str]) -> Iterator[None]:
            before = sum(graph.replays for graph in self.graphs)
            yield
            timed.append((metadata["category"], sum(graph.replays for graph in self.graphs) - before))

        self.draft_runner.device_timer = SimpleNamespace(wrap=wrap)
        return timed
