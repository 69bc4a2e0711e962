"""Run a program in which Triton interprets its kernels: Triton decides at its import whether it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def interpreted(program: str) -> str:
    """Run a program, which can import the tests, in a process of its own and return what it prints."""
    tests = Path(__file__).parents[1]
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": f"{tests}:{tests.parent}"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
