"""What is built from a checkout works without it, patches included."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from patchkit import __version__
from patchkit.patchset import load

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).parents[1]
MODULES = sorted((REPOSITORY / "patchkit").rglob("*.py"))


def build(project: Path, target: str, folder: Path) -> Path:
    """Return the wheel or source distribution of a project."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that builds, once each, the checkout's wheel or source distribution."""
    return cache(lambda target: build(REPOSITORY, target, tmp_path_factory.mktemp("built")))


@pytest.fixture(scope="module")
def unpacked_sdist(built: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(built("sdist")) as archive:
        archive.extractall(folder, filter="data")
    (project,) = folder.iterdir()
    return project


def test_what_an_install_brings_along_is_imported() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[^\w-]", line, maxsplit=1)[0] for line in project["dependencies"]}
    # By what each is imported, where that is not its own name; ruff is a program. The settings of a tree, which doctor
    # executes, import packaging.
    modules = {"pyyaml": "yaml"}
    code = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    for name in required - {"packaging", "ruff"}:
        assert re.search(rf"(?m)^\s*(?:import|from) {modules.get(name, name.replace('-', '_'))}\b", code), (
            name
        )


def test_an_installed_wheel_brings_its_patches(built: Callable[[str], Path], tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*pip, str(built("wheel"))], check=True)
    listed = subprocess.run(
        [sys.executable, "-m", "patchkit", "show"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert [line.split()[0] for line in listed.stdout.splitlines() if line[:1].strip()][:-1] == list(
        load.patches().ids
    )
    assert sorted(
        path.parent.name for path in (site / "patchkit" / "patches").glob("*/patch.toml")
    ) == sorted(load.patches().ids)
    assert (site / "patchkit" / "patches" / "runs.json").is_file()
    assert (site / "patchkit" / "py.typed").is_file()
    assert (site / "bin" / "patchkit").is_file()


def test_a_source_distribution_has_the_licence_the_tests_and_the_docs(unpacked_sdist: Path) -> None:
    wanted = (
        "LICENSE",
        "README.md",
        "docs/authoring.md",
        "patches/26128/patch.toml",
        "scripts/test",
        "tests/support/toys.py",
    )
    assert [name for name in wanted if not (unpacked_sdist / name).is_file()] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.relative_to(REPOSITORY).as_posix())
def test_every_module_parses_on_the_oldest_python(module: Path) -> None:
    ast.parse(module.read_text(encoding="utf-8"), feature_version=(3, 10))


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_a_source_distribution_gives_the_bytes_of_the_checkout_whenever_and_wherever_it_is_built(
    target: str, built: Callable[[str], Path], unpacked_sdist: Path, tmp_path: Path
) -> None:
    project = tmp_path / "another" / "checkout"
    shutil.copytree(unpacked_sdist, project)
    for path in project.rglob("*"):
        os.utime(path, (1_500_000_000, 1_500_000_000))
    assert build(project, target, tmp_path / "built").read_bytes() == built(target).read_bytes()


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_what_is_built_is_what_the_package_index_takes(target: str, built: Callable[[str], Path]) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(built(target))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "PASSED" in checked.stdout


def test_the_long_description_leads_nowhere_that_an_index_lacks(built: Callable[[str], Path]) -> None:
    with zipfile.ZipFile(built("wheel")) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        metadata, _, description = wheel.read(name).decode().partition("\n\n")
    assert f"Version: {__version__}" in metadata
    assert description.startswith("# patchkit")
    assert re.findall(r"\]\((?!https?:)[^)]*\)|<!--|!\[", description) == []
    assert "the method and all figures" in " ".join(description.split())
