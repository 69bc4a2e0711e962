"""Trees of sglang that are asked: each probe runs in a tree's own process and its answer comes back."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from socket import send_fds, socketpair
from typing import IO, TYPE_CHECKING, Any, Protocol

import patchkit
from support.releases import PATCHES, REFERENCE, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from socket import socket

    from support.releases import Releases

SUCCESSOR = "0.5.13"
"""The release whose results those of a patched tree have to equal."""
DEFAULT = tuple(patch.id for patch in PATCHES if patch.default)
OPTIONAL = tuple(patch.id for patch in PATCHES if not patch.default)
"""Patches that take naming."""

_WORKER = Path(__file__).with_name("worker.py")
# To fork copies the table of 300 MB of pages, three quarters of what a small probe takes; that of huge pages is short.
# A C library or a kernel that has none goes on as it did.
_HUGE_PAGES = {"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
_SECONDS = 300
_TAIL = 20
_LINE = 64


class ProbeError(Exception):
    """An exception that a probe raised, with the traceback it had there."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}\n{trace}")
        self.kind, self.message, self.trace = kind, message, trace


class WorkerDiedError(Exception):
    """A probe, or the process that runs a tree's probes, ended or hung without an answer."""


class _Process(Protocol):
    def kill(self) -> None: ...

    def wait(self) -> object: ...


@dataclass
class _Fork:
    """A process that another one forked, and waits for."""

    pid: int

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> str:
        return "a status that nobody kept"


def _log() -> IO[str]:
    return tempfile.TemporaryFile("w+", errors="replace")


def _launch(theirs: socket, log: IO[str], *tree: str) -> subprocess.Popen[bytes]:
    # The tests' own patchkit, so that what a tree imports is what is tested.
    paths = (str(Path(patchkit.__file__).parents[1]), os.environ.get("PYTHONPATH"))
    return subprocess.Popen(
        (sys.executable, str(_WORKER), str(theirs.fileno()), *tree),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(theirs.fileno(),),
        env=os.environ | _HUGE_PAGES | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


class Nursery:
    """A process that has imported what every tree imports, and forks for each that is asked; all write to its log."""

    def __init__(self) -> None:
        self.log = _log()
        self._trees, theirs = socketpair()
        self._process = _launch(theirs, self.log)
        theirs.close()

    def fork(self, theirs: socket, root: Path) -> _Fork:
        """Have a fork serve a tree over the connection."""
        send_fds(self._trees, [os.fsencode(root)], [theirs.fileno()])
        return _Fork(int(self._trees.recv(_LINE)))

    def stop(self) -> None:
        """End the process; trees that it forked for go on until they are stopped."""
        self._trees.close()
        self._process.wait()


@dataclass
class Worker:
    """A process that has a tree's sglang imported."""

    name: str
    root: Path
    nursery: Nursery | None = None

    @cached_property
    def _own_log(self) -> IO[str]:
        return _log()

    @property
    def _log(self) -> IO[str]:
        return self.nursery.log if self.nursery else self._own_log

    @cached_property
    def _started(self) -> tuple[_Process, Connection]:
        ours, theirs = socketpair()
        process: _Process
        if self.nursery is None:
            process = _launch(theirs, self._log, str(self.root))
        else:
            process = self.nursery.fork(theirs, self.root)
        theirs.close()
        return process, Connection(ours.detach())

    def ask(self, probe: str, requests: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
        """Return the probe's answer to each request, which is its arguments."""
        process, connection = self._started
        try:
            connection.send((probe, requests))
            if not connection.poll(_SECONDS):
                raise self._died(probe, f"no answer in {_SECONDS} s")
            kind, answer = pickle.loads(connection.recv_bytes())
        except (EOFError, ConnectionError):
            raise self._died(probe, f"the process ended with {process.wait()}") from None
        if kind == "error":
            raise ProbeError(*answer)
        if kind == "died":
            raise self._died(probe, f"the probe's process ended with {answer}")
        answers: list[Any] = answer
        return answers

    def _died(self, probe: str, how: str) -> WorkerDiedError:
        self._log.seek(0)
        said = "".join(self._log.readlines()[-_TAIL:])
        self.stop()
        return WorkerDiedError(f"{probe} in the {self.name} tree: {how}; it said:\n{said}")

    def stop(self) -> None:
        """End the process; the next question starts another."""
        if "_started" in vars(self):
            process, connection = self._started
            connection.close()
            process.kill()
            process.wait()
            del self._started


class DrivenTree:
    """A tree that is made and started when it is first asked."""

    def __init__(self, name: str, make: Callable[[], Path], nursery: Nursery | None = None) -> None:
        self._name, self._make, self._nursery = name, make, nursery

    @cached_property
    def _worker(self) -> Worker:
        return Worker(self._name, self._make(), self._nursery)

    def ask(self, probe: str, *arguments: Any, **keywords: Any) -> Any:
        """Return what the probe (``module.function``) answers in this tree, as plain Python."""
        return self._worker.ask(probe, [(arguments, keywords)])[0]

    def ask_many(self, probe: str, requests: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Return what the probe answers to each tuple of arguments, in one round trip."""
        return self._worker.ask(probe, [(arguments, {}) for arguments in requests])

    def stop(self) -> None:
        """End what was started."""
        if "_worker" in vars(self):
            self._worker.stop()


def unpatched(releases: Releases, folder: Path) -> DrivenTree:
    """Return the release that patches are written for, as it is."""
    return DrivenTree("unpatched", lambda: releases.copy(REFERENCE, folder / "unpatched").root)


def upstream(releases: Releases, folder: Path) -> DrivenTree:
    """Return the first release that has upstream's own changes."""
    return DrivenTree("upstream", lambda: releases.copy(SUCCESSOR, folder / "upstream").root)


def with_patches(
    releases: Releases, folder: Path, name: str, patches: tuple[str, ...], version: str = REFERENCE
) -> DrivenTree:
    """Return a release with ``patches`` (and what they require), as the command applies them."""

    def make() -> Path:
        tree = releases.copy(version, folder / name)
        run("apply", tree.root, *patches)
        return tree.root

    return DrivenTree(name, make)
