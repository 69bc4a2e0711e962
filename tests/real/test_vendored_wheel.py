"""A wheel of a release with a vendored runtime works where patchkit is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.releases import (
    REFERENCE,
    Releases,
    answer,
    fingerprints,
    run,
    states,
    wheel,
    without_record,
)

from patchkit.tree.sglang import module_of, serves
from patchkit.verify.checks import loading

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

PROJECT = f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "sglang"
version = "{REFERENCE}"

[tool.hatch.build.targets.wheel]
packages = ["sglang"]
"""


@pytest.fixture(scope="module")
def fork(releases: Releases, tmp_path_factory: pytest.TempPathFactory) -> CheckoutTree:
    folder = tmp_path_factory.mktemp("fork")
    with zipfile.ZipFile(wheel(REFERENCE)) as archive:
        archive.extractall(folder)  # All of it: some modules look for what is no Python beside them.
    tree = releases.copy(REFERENCE, folder)
    (tree.root / "pyproject.toml").write_text(PROJECT)
    run("apply", tree.root, "--runtime", "vendored")
    return tree


class Empty:
    """An environment with the wheel alone; it sees this one's packages, torch among them, but for patchkit."""

    def __init__(self, folder: Path, built: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        self.site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
        pip = (
            sys.executable,
            "-m",
            "pip",
            "install",
            "-qq",
            "--no-deps",
            "--no-index",
            "--no-compile",
            "--target",
        )
        subprocess.run((*pip, str(self.site), str(built)), check=True)
        self.seen = folder / "seen"
        self.seen.mkdir()
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if "patchkit" not in path.name:
                (self.seen / path.name).symlink_to(path)

    def run(self, *words: object, **keywords: Any) -> subprocess.CompletedProcess[bytes]:
        """Run its Python."""
        known = os.environ | {"PYTHONPATH": str(self.seen)}
        command = [str(word) for word in (self.python, *words)]
        return subprocess.run(command, env=known, cwd=self.site, check=True, **keywords)


@pytest.fixture(scope="module")
def empty(fork: CheckoutTree, tmp_path_factory: pytest.TempPathFactory) -> Empty:
    folder = tmp_path_factory.mktemp("built")
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(build, cwd=fork.root, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return Empty(tmp_path_factory.mktemp("empty"), built)


def test_patchkit_is_not_there_and_the_runtime_is_the_wheels(empty: Empty) -> None:
    code = "import importlib.util as u; print(u.find_spec('patchkit'), bool(u.find_spec('torch')))"
    assert empty.run("-c", code, stdout=subprocess.PIPE).stdout == b"None True\n"
    assert (empty.site / "sglang" / "_patchkit" / "runtime" / "api_1.py").is_file()


def test_every_patched_module_of_the_wheel_is_imported_with_stand_ins_and_one_that_would_need_patchkit_is_not(
    fork: CheckoutTree, empty: Empty, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched = {edit["file"] for patch in answer("status", fork.root)["patches"] for edit in patch["edits"]}
    there = sorted(file for file in patched if serves(file) and fork.read(file) is not None)
    inside = sorted(path.name for path in (empty.site / "sglang" / "_patchkit" / "backends").glob("*.py"))
    backends = [f"sglang._patchkit.backends.{name.removesuffix('.py')}" for name in inside]
    assert len(there) > 15
    assert len(backends) > 5
    (empty.site / "sglang" / "srt" / "needing.py").write_text("from patchkit.runtime import api_1\n")
    modules = ("sglang._patchkit.runtime.api_1", *map(module_of, there), *backends, "sglang.srt.needing")
    # As a check imports them.
    monkeypatch.setattr(sys, "executable", str(empty.python))
    monkeypatch.setenv("PYTHONPATH", str(empty.seen))
    monkeypatch.chdir(empty.site)
    request = {"path": str(empty.site), "modules": modules, "contents": {}}
    with tempfile.TemporaryFile() as channel, tempfile.TemporaryFile() as stderr:
        code = loading._import(request, channel, stderr)
        assert code == 0, loading._text(stderr)
        errors = json.loads(loading._text(channel))["errors"]
    assert errors == {"sglang.srt.needing": [1, "ModuleNotFoundError: No module named 'patchkit'"]}


def test_the_tree_that_it_was_built_from_verifies_and_is_taken_back(
    releases: Releases, fork: CheckoutTree, empty: Empty
) -> None:
    del empty  # What building leaves in the tree must not matter.
    run("verify", fork.root)
    assert "applied" in states(fork).values()
    run("revert", fork.root)
    before = without_record(fingerprints(releases.tree(REFERENCE).package))
    files = without_record(fingerprints(fork.package))
    assert {name: files[name] for name in before} == before
    assert not [name for name in files if name.startswith("_patchkit")]
