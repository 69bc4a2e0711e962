"""The folder of a drafted patch is written whole, and what a killed process left in it is removed by the next write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.commands.patch_folder import staged

FILES = {"patch.toml": b"id = 1\n", "change.diff": b"", "base/1": b""}
KILLED = f"""
import os, signal
from pathlib import Path
from patchkit.commands.patch_folder import staged
with staged({{Path("made"): {FILES!r}}}):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_write_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    paths = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        (sys.executable, "-c", KILLED), check=False, cwd=tmp_path, env={**os.environ, **paths}
    )
    assert done.returncode == -signal.SIGKILL
    (left,) = names(tmp_path / "made")
    assert left.startswith(".patchkit-new-")
    with staged({tmp_path / "made": FILES}):
        pass
    assert names(tmp_path / "made") == ["base", "change.diff", "patch.toml"]


def test_what_a_running_write_needs_stays(tmp_path: Path) -> None:
    other = {"other.toml": b""}
    with staged({tmp_path: FILES}), staged({tmp_path: other}):
        pass
    assert names(tmp_path) == ["base", "change.diff", "other.toml", "patch.toml"]


@pytest.mark.parametrize("what", ["a folder without a lock", "a link", "a file", "a folder with a pipe"])
def test_what_no_process_left_stays(tmp_path: Path, what: str) -> None:
    target, odd = tmp_path / "target", tmp_path / "made" / ".patchkit-new-mine"
    target.mkdir()
    (target / "lock").touch()
    odd.parent.mkdir()
    if what == "a link":
        odd.symlink_to(target)
    elif what == "a file":
        odd.touch()
    else:
        odd.mkdir()
        if what == "a folder with a pipe":
            os.mkfifo(odd / "lock")
    with staged({odd.parent: FILES}):
        pass
    assert os.path.lexists(odd)
    assert (target / "lock").exists()
