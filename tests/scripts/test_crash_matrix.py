"""A part of the interruption matrix; `scripts/crash_matrix.py` runs all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_every_act_stopped_at_some_calls_leaves_the_old_tree_or_the_new_one() -> None:
    command = [sys.executable, "scripts/crash_matrix.py", "--every", "97", "--doubled", "151"]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.rstrip().endswith("wrong: 0.")
    for act in (
        "apply",
        "revert",
        "partial revert",
        "apply --runtime vendored",
        "apply --commit",
        "later apply --commit",
        "rebase --merge",
        "apply --markers",
        "resolve",
    ):
        assert f"\n| {act} | " in ran.stdout
