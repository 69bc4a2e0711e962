"""A program with all that it starts, also in sessions of their own: paused, resumed and ended as one; its ports."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.processes import require_list

from patchkit.bench.process import GROUP_PORT, SERVER_PORT, TreeProcess
from patchkit.bench.watchdog import Watchdog, family

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Starts a scheduler in a session of its own, which starts another process.
PROGRAM = """
import subprocess, sys, time
if int(sys.argv[1]):
    subprocess.Popen([sys.executable, "-c", open(sys.argv[2]).read(), str(int(sys.argv[1]) - 1), sys.argv[2]],
                     start_new_session=int(sys.argv[1]) == 2)
time.sleep(600)
"""


def state(pid: int) -> str:
    """Return the letter of a process's state; that of one that has ended is empty or Z."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def becomes(said: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30
    while not said() and time.monotonic() < until:
        time.sleep(0.01)
    return said()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[TreeProcess, list[int]]]:
    require_list()
    (tmp_path / "program").write_text(PROGRAM)
    with Watchdog() as watchdog:
        program = TreeProcess(tmp_path / "log", watchdog)
        program.start([sys.executable, "-c", PROGRAM, "2", str(tmp_path / "program")], os.environ)
        assert becomes(lambda: len(family(program.process.pid)) == 3)
        yield program, [member.pid for member in family(program.process.pid)]
    program.stop()


def test_a_scheduler_in_a_session_of_its_own_is_paused_and_goes_on_however_the_pause_ends(
    started: tuple[TreeProcess, list[int]],
) -> None:
    program, pids = started
    assert pids[0] == program.process.pid
    assert len({os.getsid(pid) for pid in pids}) == 2
    for error in (None, KeyboardInterrupt):
        with pytest.raises(error) if error else program.paused(), program.paused():
            assert becomes(lambda: {state(pid) for pid in pids} == {"T"})
            if error:
                raise error
        assert becomes(lambda: "T" not in {state(pid) for pid in pids})


@pytest.mark.parametrize("grace", [0.0, 5.0])
def test_a_scheduler_in_a_session_of_its_own_ends_with_its_server(
    started: tuple[TreeProcess, list[int]], grace: float
) -> None:
    program, pids = started
    program.stop(grace)
    assert becomes(lambda: not {state(pid) for pid in pids} - {"", "Z"})


def test_the_watchdog_ends_what_is_paused(tmp_path: Path) -> None:
    require_list()
    (tmp_path / "program").write_text(PROGRAM)
    with Watchdog() as watchdog:
        program = TreeProcess(tmp_path / "log", watchdog)
        program.start([sys.executable, "-c", PROGRAM, "2", str(tmp_path / "program")], os.environ)
        assert becomes(lambda: len(family(program.process.pid)) == 3)
        pids = [member.pid for member in family(program.process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    assert becomes(lambda: not {state(pid) for pid in pids} - {"", "Z"})
    program.stop()


def test_programs_that_start_together_have_ports_of_their_own(tmp_path: Path) -> None:
    with Watchdog() as watchdog:
        programs = [TreeProcess(tmp_path / "log", watchdog) for _ in range(20)]
    taken = {program.ports + place for program in programs for place in (0, SERVER_PORT, GROUP_PORT)}
    assert len(taken) == 60
    assert max(taken) < 32768
