"""A few mutated files; `scripts/fuzz.py` tries many more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_every_kind_of_altered_file_is_taken_or_refused() -> None:
    command = [sys.executable, "scripts/fuzz.py", "--cases", "12"]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.rstrip().endswith("60 cases; wrong: 0.")
    for kind in ("patch files", "sources", "patched sources", "records", "journals"):
        assert f"\n| {kind} | " in ran.stdout
