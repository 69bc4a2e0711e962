"""A process that outlives patchkit for a moment: however patchkit ends, it kills the servers and removes their folder.

It is started by its file's name, and imports the standard library alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

# What was killed may still be writing.
_REMOVALS = 20
_PAUSE = 0.1


class Watchdog:
    """Watches process groups and a folder; leaving the context kills the groups, and removes the folder."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(folder)],
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

    def watch(self, group: int) -> None:
        """Kill this process group at the end, too."""
        self._tell(group)

    def forget(self, group: int) -> None:
        """Leave alone a group that has ended, whose number another one may take."""
        self._tell(-group)

    def _tell(self, number: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % number)
        self._process.stdin.flush()


def main() -> None:
    """Follow what patchkit tells on stdin, and clean up once it has ended."""
    groups: set[int] = set()
    for line in sys.stdin:
        number = int(line)
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(_REMOVALS):
        shutil.rmtree(sys.argv[1], ignore_errors=True)
        if not os.path.exists(sys.argv[1]):
            break
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main()
