"""`python -m patchkit` imports nothing from the folder that it is typed in, and ends well if nobody reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import patchkit

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

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


@pytest.mark.parametrize(
    "words",
    [("show",), ("show", "--json"), ("status", "TREE"), ("audit", "TREE"), ("verify", "TREE"), ("-h",)],
)
def test_an_answer_that_nobody_reads_does_not_end_as_a_failed_check(
    tree: CheckoutTree, words: tuple[str, ...]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [
        sys.executable,
        "-m",
        "patchkit",
        *(str(tree.root) if word == "TREE" else word for word in words),
    ]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
