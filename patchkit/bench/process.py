"""A program that runs a tree, with its log, its ports and all that it starts."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from patchkit.bench.watchdog import family, halt, kill, resume
from patchkit.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from patchkit.bench.watchdog import ProgramMember, Watchdog

LOCAL = "127.0.0.1"
# Ports of a program and of its ranks, below those that Linux gives to outgoing connections, which could take a port
# before the program does.
_PORTS = range(6000, 32000, 400)
# Places of ports that programs take in a block: of the server, and of the ranks' group.
SERVER_PORT, GROUP_PORT = 1, 200


class TreeProcess:
    """A program in a process group of its own, from its start to its end; ``ports`` is the start of a block of ports.

    No other program that is started here takes one of the 400 ports of a block.
    """

    def __init__(self, log: Path, watchdog: Watchdog) -> None:
        """Reserve its ports."""
        self.log = log
        self._watchdog = watchdog
        self._guard, self.ports = _reserved()
        self._is_stopped = False

    def start(self, words: Sequence[str | Path], environment: Mapping[str, str], **options: Any) -> None:
        """Start it with ``options`` of ``Popen``; its output goes to the log."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                words,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
                **options,
            )
        self._watchdog.watch(self.process.pid)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all its processes for a while."""
        halted: list[ProgramMember] = []
        try:
            halt(self.process.pid, halted)
            yield
        finally:
            resume(halted)

    def stop(self, grace: float = 0.0) -> None:
        """End it and all that it started, at once or after some seconds to end by itself; later calls do nothing."""
        if self._is_stopped:
            return
        self._is_stopped = True
        started = family(self.process.pid)
        if grace:
            self.process.send_signal(signal.SIGTERM)
            self.has_ended(grace)
        kill(self.process.pid, started)
        self.process.wait()
        self._watchdog.forget(self.process.pid)
        self._guard.close()

    def has_ended(self, within: float = 0.0) -> bool:
        """Return whether it ends within so many seconds."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(within)
            return True
        return False

    def said(self) -> str:
        """Return its log."""
        return self.log.read_text(errors="replace")


def _reserved() -> tuple[socket.socket, int]:
    """Return a block of ports that are free, and the socket at its start that keeps others from taking it."""
    for start in random.sample(_PORTS, len(_PORTS)):
        guard = socket.socket()
        try:
            guard.bind((LOCAL, start))
            for place in (SERVER_PORT, GROUP_PORT):
                with socket.socket() as tried:
                    tried.bind((LOCAL, start + place))
        except OSError:
            guard.close()
        else:
            return guard, start
    raise TreeError("no ports are free", advice="end servers on this machine that nobody needs")
