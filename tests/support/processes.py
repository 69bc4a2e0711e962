"""Return which processes are still running."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def require_list() -> None:
    """Expect the test to fail where the system does not list processes."""
    if not Path("/proc/self/stat").exists():
        pytest.xfail("processes are listed by Linux alone")


def running(group: int) -> bool:
    """Return whether any process of a group is there that has not ended."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[2]) == group and words[0] != "Z":
            return True
    return False


def ends(group: int) -> bool:
    """Return whether all processes of a group end within half a minute."""
    return _is_soon(lambda: not running(group))


def ends_on(path: Path) -> bool:
    """Return whether all processes with a path in their command line end within half a minute."""
    return _is_soon(lambda: not any(map(str(path).encode().__eq__, _words())))


def _words() -> Iterator[bytes]:
    """Yield the words of each process's command line; one that has ended has none."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield from line.read_bytes().split(b"\0")


def _is_soon(holds: Callable[[], bool]) -> bool:
    for _ in range(600):
        if holds():
            return True
        time.sleep(0.05)
    return False
