"""Programs with all that they start: they are halted and killed as one, however patchkit itself ends.

The watchdog is started by its file's name, and imports the standard library alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

# The place of the start's time in the fields of `/proc/PID/stat` that follow the name.
_STARTED = 19
# What was killed may still be writing.
_REMOVALS = 20
_PAUSE = 0.1


class ProgramMember(NamedTuple):
    """A process by its number, which another one may take later, and by the time of its start."""

    pid: int
    started: str


def family(leader: int) -> list[ProgramMember]:
    """Return the processes in the group and session of their leader, and all that these started; parents come first."""
    found: dict[int, ProgramMember] = {}
    parents: dict[int, int] = {}
    members: set[int] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _fields(stat)
        if fields:
            pid = int(stat.parent.name)
            _, parent, group, session = fields[:4]
            found[pid], parents[pid] = ProgramMember(pid, fields[_STARTED]), int(parent)
            if leader in (int(group), int(session)):
                members.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in members} - members:
        members |= more

    def depth(pid: int) -> int:
        return 1 + depth(parents[pid]) if parents.get(pid) in members else 0

    return [found[pid] for pid in sorted(members & found.keys(), key=depth)]


def halt(leader: int, halted: list[ProgramMember]) -> None:
    """Stop a process and its family, each before those that it started; ``halted`` gets them as they are stopped."""
    # A process that is not stopped yet may start another one.
    while more := [member for member in family(leader) if member not in halted]:
        for member in more:
            halted.append(member)
            _signal([member], signal.SIGSTOP)


def resume(halted: Sequence[ProgramMember]) -> None:
    """Let processes that were stopped go on, each after those that it started."""
    _signal(halted[::-1], signal.SIGCONT)


def kill(leader: int, others: Sequence[ProgramMember] = ()) -> None:
    """Kill a process with its family, and others."""
    halted: list[ProgramMember] = []
    halt(leader, halted)
    _signal([*halted, *others], signal.SIGKILL)


def _signal(members: Iterable[ProgramMember], number: int) -> None:
    for member in members:
        with suppress(ProcessLookupError):
            if _fields(Path(f"/proc/{member.pid}/stat"))[_STARTED : _STARTED + 1] == [member.started]:
                os.kill(member.pid, number)


def _fields(stat: Path) -> list[str]:
    """Return the fields of a process that follow its name, none if it has ended."""
    try:
        # The name is in parentheses, and may contain any character.
        return stat.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


class Watchdog:
    """Watches programs and a folder; leaving the context kills the programs' families, and removes the folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, *([str(folder)] if folder else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def watch(self, leader: int) -> None:
        """Kill this process and its family at the end, too."""
        self._tell(leader)

    def forget(self, leader: int) -> None:
        """Leave alone a process that has ended, whose number another one may take; after the context there is none."""
        self._tell(-leader)

    def _tell(self, number: int) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.write(b"%d\n" % number)
            self._process.stdin.flush()


def main() -> None:
    """Follow what patchkit tells on stdin, and clean up once it has ended."""
    leaders: set[int] = set()
    for line in sys.stdin:
        number = int(line)
        if number > 0:
            leaders.add(number)
        else:
            leaders.discard(-number)
    for leader in leaders:
        kill(leader)
    for folder in sys.argv[1:]:
        for _ in range(_REMOVALS):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(_PAUSE)


if __name__ == "__main__":
    main()
