"""Spread work on refs over worker processes, which end when their parent does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import TYPE_CHECKING, Any

from patchkit.matrix.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_CLEANUP_SECONDS = 5
"""Seconds that a worker gets to remove its temporary files on SystemExit."""


# It is sent to each worker once, and called there with one commit after the other, and with new results of other
# workers. It returns the result for the commit, or a Failure.
Work = Callable[[str, Sequence[Any]], Any]

_work: Work | None = None


def spread(
    work: Work, todo: Iterable[tuple[str, str]], jobs: int, new_results: Sequence[Any] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield the result of ``work``, with the name, for each pair of a name and a commit.

    Each worker gets adjacent commits, which share files, and takes over another worker's when its own are done. What is
    added to ``new_results`` meanwhile is sent to each worker with its next commit. Where the system has no semaphores
    for worker processes, such as in a container without ``/dev/shm``, this process does the work.
    """
    tasks = list(todo)
    try:
        lanes = [_Lane(work, lane, len(new_results)) for lane in _split(tasks, max(1, min(jobs, len(tasks))))]
    except (OSError, NotImplementedError):
        for name, commit in tasks:
            # The process has its own results already.
            yield name, work(commit, ())
        return
    running: dict[Future[Any], tuple[_Lane, str]] = {}

    def submit(lane: _Lane) -> None:
        most = max(lanes, key=lambda lane: len(lane.tasks)).tasks
        if lane.tasks or most:
            name, commit = lane.tasks.popleft() if lane.tasks else most.pop()
            running[lane.pool.submit(_run_task, commit, new_results[lane.sent :])] = lane, name
            lane.sent = len(new_results)

    try:
        for lane in lanes:
            submit(lane)
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                lane, name = running.pop(future)
                # A worker that is terminated while it sends a result back sends the exit instead.
                if isinstance(future.exception(), BrokenProcessPool | SystemExit):
                    outcome = Failure(
                        "the worker process for this ref ended before it had a result, as one that lacks memory does: "
                        "run patchkit status on a checkout, which names the file."
                    )
                    lane.pool.shutdown(wait=False)
                    lane.pool, lane.sent = _pool(work), 0
                else:
                    outcome = future.result()
                submit(lane)
                yield name, outcome
    finally:
        for lane in lanes:
            lane.pool.shutdown(wait=True, cancel_futures=True)


class _Lane:
    """A worker process, its tasks, and how many new results it was sent."""

    def __init__(self, work: Work, tasks: Iterable[tuple[str, str]], sent: int) -> None:
        self.pool = _pool(work)
        self.tasks = deque(tasks)
        self.sent = sent


def _pool(work: Work) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, initializer=_start_worker, initargs=(work,))


def _start_worker(work: Work) -> None:
    global _work  # noqa: PLW0603  # one a process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent ends the workers.
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = work


def _stop(*_: object) -> None:
    raise SystemExit(1)


def _end_with_parent() -> None:
    """Wait for the parent to end, then remove temporary files and end this process."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    wait_for([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_CLEANUP_SECONDS)
    os._exit(1)


def _run_task(commit: str, new_results: Sequence[Any]) -> Any:
    if _work is None:
        raise RuntimeError("a worker was called before it was initialised")
    try:
        return _work(commit, new_results)
    except SystemExit:
        # The pool would return it as the task's result and wait for the next task.
        os._exit(1)


def _split(tasks: Sequence[tuple[str, str]], count: int) -> list[Sequence[tuple[str, str]]]:
    return [tasks[len(tasks) * n // count : len(tasks) * (n + 1) // count] for n in range(count)]
