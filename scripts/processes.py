"""Time whole processes, from start to end, in wall clock and in CPU seconds."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REPOSITORY = Path(__file__).resolve().parents[1]


def _git(*arguments: str | Path) -> None:
    subprocess.run(["git", "-C", str(REPOSITORY), *map(str, arguments)], check=True, capture_output=True)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check out another commit of this repository in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="patchkit-commit-") as folder:
        other = Path(folder) / "other"
        _git("worktree", "add", "--detach", other, commit)
        try:
            yield other
        finally:
            _git("worktree", "remove", "--force", other)


def timed(command: Sequence[object], home: Path, **environment: str) -> tuple[float, float]:
    """Run a command in ``home``, with its cache below; return its seconds of wall clock and of CPU.

    Raise SystemExit if the command fails.
    """
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "XDG_DATA_HOME": str(home)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        check=False,
        cwd=home,
        env=os.environ | own | environment,
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr.decode()}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
