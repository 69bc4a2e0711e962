"""Work on refs is spread over processes, which end when the process that started them does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import TYPE_CHECKING, Any, Protocol

from patchkit.matrix.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_CLEANING = 5
"""Seconds for a process to take its temporary files away, which a SystemExit makes it do."""


class Work(Protocol):
    """What a process is told once, and then does for one commit after the other."""

    def __call__(self, commit: str) -> Any:
        """Return what is asked of a commit, or a Failure."""


_work: Work | None = None


def spread(work: Work, todo: Iterable[tuple[str, str]], jobs: int) -> Iterator[tuple[str, Any]]:
    """Yield what work comes to, by name, for pairs of a name and a commit.

    A process takes neighbours, whose files it knows, until only those of another are left.
    """
    tasks = list(todo)
    lanes = [deque(lane) for lane in _split(tasks, max(1, min(jobs, len(tasks))))]
    pools = [_pool(work) for _ in lanes]
    running: dict[Future[Any], tuple[int, str]] = {}
    try:
        for lane in range(len(lanes)):
            _submit(lane, lanes, pools, running)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                lane, name = running.pop(future)
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    outcome = Failure(
                        "the process that read this ref was killed: try again with more memory."
                    )
                    pools[lane].shutdown(wait=False)
                    pools[lane] = _pool(work)
                _submit(lane, lanes, pools, running)
                yield name, outcome
    finally:
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)


def _pool(work: Work) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, initializer=_begin, initargs=(work,))


def _begin(work: Work) -> None:
    global _work  # noqa: PLW0603  # one a process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process that started this one ends it.
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = work


def _stop(*_: object) -> None:
    raise SystemExit(1)


def _end_with_parent() -> None:
    """Have temporary files taken away, then end, when nobody is left to ask for anything."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    wait_for([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_CLEANING)
    os._exit(1)


def _do(commit: str) -> Any:
    if _work is None:
        raise RuntimeError("a process was asked for work before it was told which")
    return _work(commit)


def _split(tasks: Sequence[tuple[str, str]], count: int) -> list[Sequence[tuple[str, str]]]:
    return [tasks[len(tasks) * n // count : len(tasks) * (n + 1) // count] for n in range(count)]


def _submit(
    lane: int,
    lanes: Sequence[deque[tuple[str, str]]],
    pools: Sequence[ProcessPoolExecutor],
    running: dict[Future[Any], tuple[int, str]],
) -> None:
    if lanes[lane]:
        name, commit = lanes[lane].popleft()
    else:
        longest = max(lanes, key=len)
        if not longest:
            return
        name, commit = longest.pop()
    running[pools[lane].submit(_do, commit)] = lane, name
