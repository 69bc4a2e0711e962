"""`python -m patchkit` imports nothing from the folder that it is typed in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import patchkit

REPOSITORY = Path(patchkit.__file__).parents[1]


def run(folder: Path, path: Path | None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, "-m", "patchkit", "show"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_module_of_the_working_folder_is_not_imported(tmp_path: Path) -> None:
    for name in ("click", "msgspec", "json", "libcst"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken over')\n")
    done = run(tmp_path, REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert "taken over" not in done.stdout + done.stderr
    assert "26128" in done.stdout


def test_it_works_in_a_checkout_that_is_not_installed() -> None:
    assert run(REPOSITORY, None).returncode == 0
