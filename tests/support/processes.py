"""Return which processes are still running."""

from __future__ import annotations

import time
from pathlib import Path

import pytest


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
    for _ in range(600):
        if not running(group):
            return True
        time.sleep(0.05)
    return False
