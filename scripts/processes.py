"""Whole processes are timed as a person meets them: start, imports, work and end, in wall clock and in CPU."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def timed(command: Sequence[object], home: Path, **environment: str) -> tuple[float, float]:
    """Run a command in ``home``, with its cache below; return its seconds of wall clock and of CPU.

    SystemExit if the command fails.
    """
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home)}
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        check=False,
        cwd=home,
        env=os.environ | own | environment,
    )
    wall, after = time.perf_counter() - started, os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr.decode()}")
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, busy
