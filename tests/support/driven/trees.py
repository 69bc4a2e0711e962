"""Driven trees of sglang: each probe runs in the tree's own process, which returns its answer."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from socket import send_fds, socketpair
from typing import TYPE_CHECKING, Any

import patchkit
from patchkit.patchset import load
from support.releases import PATCHES, REFERENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from socket import socket

    from support.releases import Releases

SUCCESSOR = "0.5.13"
"""The release whose results a patched tree has to reproduce."""
DEFAULT = tuple(patch.id for patch in load.patches() if patch.default)
OPTIONAL = tuple(patch.id for patch in PATCHES if not patch.default)
"""Opt-in patches."""

_WORKER = Path(__file__).with_name("worker.py")
# To fork copies the table of 300 MB of pages, much of what a small probe takes; that of huge pages is short. Python's
# own objects stay with its allocator, without which probes take a fifth longer.
# A C library or a kernel that has none goes on as it did.
_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
_SECONDS = 300
_TAIL = 20
_LINE = 64


class ProbeError(Exception):
    """An exception that a probe raised, with the traceback of its process."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}\n{trace}")
        self.kind, self.message, self.trace = kind, message, trace


class WorkerDiedError(Exception):
    """A probe, or the process that runs a tree's probes, ended or hung without an answer."""


class Nursery:
    """A process that has imported the modules common to all trees, and forks for each tree; all write to its log."""

    def __init__(self) -> None:
        self.log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - open until `stop`.
        self._compiled = tempfile.TemporaryDirectory()
        self._trees, theirs = socketpair()
        # The tests' own patchkit, so that what a tree imports is what is tested.
        paths = (str(Path(patchkit.__file__).parents[1]), os.environ.get("PYTHONPATH"))
        self._process = subprocess.Popen(
            (sys.executable, str(_WORKER), str(theirs.fileno()), self._compiled.name),
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            pass_fds=(theirs.fileno(),),
            env=os.environ | _HUGE_PAGES | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        theirs.close()

    def fork(self, theirs: socket, root: Path) -> _Fork:
        """Fork a process that serves a tree over the connection."""
        send_fds(self._trees, [os.fsencode(root)], [theirs.fileno()])
        return _Fork(int(self._trees.recv(_LINE)), self)

    def wait(self, pid: int) -> int:
        """Return the exit status of a fork; can be requested once."""
        self._trees.send(str(pid).encode())
        return int(self._trees.recv(_LINE))

    def stop(self) -> None:
        """End the process; its forks continue until they are stopped."""
        self._trees.close()
        self._process.wait()
        self._compiled.cleanup()
        self.log.close()


@cache
def nursery() -> Nursery:
    """Return the session's nursery, for tests without one of their own; it is stopped at the session's end."""
    return Nursery()


@dataclass
class _Fork:
    """A child process of the nursery."""

    pid: int
    _nursery: Nursery

    @cached_property
    def status(self) -> int:
        return self._nursery.wait(self.pid)

    def stop(self) -> None:
        # Its number may be another's once it was waited for.
        if "status" not in vars(self):
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._nursery.wait(self.pid)


@dataclass
class Worker:
    """A process that has imported a tree's sglang."""

    name: str
    root: Path
    nursery: Nursery = field(default_factory=nursery)

    @cached_property
    def _started(self) -> tuple[_Fork, Connection]:
        ours, theirs = socketpair()
        process = self.nursery.fork(theirs, self.root)
        theirs.close()
        return process, Connection(ours.detach())

    def ask(
        self, probe: str, requests: list[tuple[tuple[Any, ...], dict[str, Any]]], *, observe: bool = False
    ) -> list[Any]:
        """Return the probe's answer to each request, a tuple of arguments; if observed, with what it did."""
        process, connection = self._started
        try:
            connection.send((probe, requests, observe))
            if not connection.poll(_SECONDS):
                raise self._died(probe, f"no answer in {_SECONDS} s")
            kind, answer = pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionError):
            raise self._died(probe, f"the process ended with {process.status}") from None
        if kind == "error":
            raise ProbeError(*answer)
        if kind == "died":
            raise self._died(probe, f"the probe's process ended with {answer}")
        answers: list[Any] = answer
        return answers

    def _died(self, probe: str, how: str) -> WorkerDiedError:
        self.nursery.log.seek(0)
        log = "".join(self.nursery.log.readlines()[-_TAIL:])
        self.stop()
        return WorkerDiedError(f"{probe} in the {self.name} tree: {how}; it said:\n{log}")

    def stop(self) -> None:
        """End the process; the next request starts another."""
        if "_started" in vars(self):
            process, connection = self._started
            connection.close()
            process.stop()
            del self._started


class DrivenTree:
    """A tree that is created and started at its first request."""

    def __init__(self, name: str, make: Callable[[], Path], *nursery: Nursery) -> None:
        self._name, self._make, self._nursery = name, make, nursery

    @cached_property
    def _worker(self) -> Worker:
        return Worker(self._name, self._make(), *self._nursery)

    def ask(self, probe: str, *arguments: Any, **keywords: Any) -> Any:
        """Run the probe (``module.function``) in this tree; return its answer as plain Python objects."""
        return self._worker.ask(probe, [(arguments, keywords)])[0]

    def observe(self, probe: str, *arguments: Any, **keywords: Any) -> dict[str, Any]:
        """Run the probe; return its answer with the functions that it ran and what it cost (`observation.observed`)."""
        seen: dict[str, Any] = self._worker.ask(probe, [(arguments, keywords)], observe=True)[0]
        return seen

    def ask_many(self, probe: str, requests: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Return the probe's answer to each tuple of arguments, in one round trip."""
        return self._worker.ask(probe, [(arguments, {}) for arguments in requests])

    def stop(self) -> None:
        """End the tree's process."""
        if "_worker" in vars(self):
            self._worker.stop()


# How many trees run at most, and how many of those that were asked last stay.
_MOST, _LAST = 16, 4
_running: dict[Path, Worker] = {}
_starts: Counter[Path] = Counter()


class SharedTree(DrivenTree):
    """A read-only tree: all tests use one process, which ends after many other trees have been used."""

    @cached_property
    def _root(self) -> Path:
        return self._make()

    @property
    def _worker(self) -> Worker:
        worker = _running.pop(self._root, None)
        if worker is None:
            worker = Worker(self._name, self._root)
            _starts[self._root] += 1
        _running[self._root] = worker
        if len(_running) > _MOST:
            # One that was started again is asked by many modules.
            least = min([*_running][:-_LAST], key=_starts.__getitem__)
            _running.pop(least).stop()
        return worker

    def stop(self) -> None:
        """Keep the process for other tests."""


def stop_trees() -> None:
    """End the processes of shared trees; the next request to one starts another."""
    while _running:
        _running.popitem()[1].stop()


def stop_nursery() -> None:
    """End the process that shared trees are forked from."""
    if nursery.cache_info().currsize:
        nursery().stop()


def as_released(releases: Releases, version: str) -> DrivenTree:
    """Return a release, unpatched."""
    return SharedTree(version, lambda: releases.tree(version).root)


def unpatched(releases: Releases) -> DrivenTree:
    """Return the release that patches are written for, unpatched."""
    return as_released(releases, REFERENCE)


def upstream(releases: Releases) -> DrivenTree:
    """Return the first release that has upstream's own changes."""
    return as_released(releases, SUCCESSOR)


def with_patches(
    releases: Releases, name: str, patches: tuple[str, ...], version: str = REFERENCE
) -> DrivenTree:
    """Return a release with ``patches`` (and what they require), as the command applies them."""
    return SharedTree(name, lambda: releases.applied(version, *patches).root)
