"""The scripts of newcomers and CI work, or print one sentence about what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.releases import REFERENCE, wheel
from support.sweeps import swept

REPOSITORY = Path(__file__).parents[2]


def bash(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(shutil.which("bash")), script]
    merged = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=merged, capture_output=True, text=True, check=False)


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a clone of this repository has, without tests."""
    folder = tmp_path / "clone"
    for name in ("docs", "patchkit", "patches", "scripts"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".gitignore", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


@pytest.mark.release
@pytest.mark.parametrize("times", swept([1, 2], (1).__eq__))
def test_quickstart_applies_everything_to_a_release_and_takes_it_back(checkout: Path, times: int) -> None:
    (checkout / ".cache").mkdir()
    shutil.copy(wheel(REFERENCE), checkout / ".cache")
    # Byte code of what pip installs is of no use to so few processes.
    first, *later = (bash("scripts/quickstart", checkout, PIP_NO_COMPILE="1") for _ in range(times))
    assert first.returncode == 0, first.stderr
    assert f"sglang {REFERENCE} in " in first.stdout
    assert "\napplied " in first.stdout
    assert "\npending " not in first.stdout
    assert " files changed, " in first.stdout
    assert "byte for byte" in first.stdout
    assert [(again.returncode, again.stdout) for again in later] == [(0, first.stdout)] * len(later)


@pytest.mark.parametrize("script", ["scripts/quickstart", "scripts/test"])
def test_an_old_python_is_refused_in_one_sentence(script: str, checkout: Path, tmp_path: Path) -> None:
    program(tmp_path / "old-python", "exit 1")
    refused = bash(script, checkout, PYTHON=str(tmp_path / "old-python"))
    assert refused.returncode == 1
    message = refused.stderr.splitlines()[-1]
    assert message.startswith(f"{Path(script).name}: {tmp_path / 'old-python'} is not Python 3.10 or newer: ")
    assert not (checkout / ".cache").exists()


def test_quickstart_without_git_reports_it(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("basename", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    refused = bash("scripts/quickstart", checkout, PATH=str(tools))
    assert refused.returncode == 1
    assert refused.stderr.startswith("quickstart: git is not installed")


def test_quickstart_without_the_index_reports_it(checkout: Path) -> None:
    # One that works is updated; to install pip into a new one takes most of the time.
    made = [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", ".cache/quickstart/env"]
    subprocess.run(made, cwd=checkout, check=True)
    offline = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
    refused = bash("scripts/quickstart", checkout, **offline)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith("quickstart: pip could not install what is needed")


SUMMARY = "===== 3 passed in 0.01s ====="


def build_machine(folder: Path, **codes: int) -> Path:
    """Return a folder with `.ci/run` whose tests and tools end with the given codes, 0 if they are not named."""
    (folder / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", folder / ".ci" / "run")
    program(folder / "scripts" / "test", f"echo collected 3; echo '{SUMMARY}'; exit {codes.get('tests', 0)}")
    for tool in ("ruff", "mypy", "lint-imports", "zizmor"):
        program(folder / ".cache/test-env/bin" / tool, f"echo {tool} $1; exit {codes.get(tool, 0)}")
    return folder


def test_the_build_ends_with_the_tests_summary(tmp_path: Path) -> None:
    done = bash(".ci/run", build_machine(tmp_path))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[-1] == SUMMARY
    assert [line for line in lines if line.startswith(("ruff", "mypy", "lint-imports", "zizmor"))] == [
        "ruff format",
        "ruff check",
        "mypy --strict",
        "lint-imports --no-logo",
        "zizmor --offline",
    ]


@pytest.mark.parametrize("what", ["tests", "ruff", "mypy", "lint-imports", "zizmor"])
def test_the_build_fails_if_anything_does_and_still_ends_with_the_summary(what: str, tmp_path: Path) -> None:
    done = bash(".ci/run", build_machine(tmp_path, **{what: 1}))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == SUMMARY
    assert "Failed: " in done.stdout
