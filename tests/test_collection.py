"""Shared fixtures are created once: workers receive groups of tests, never single ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.collection import UNREPRESENTED, group_of
from support.releases import PATCHES
from support.sweeps import crossed, one_of, representative, representatives

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDING = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(5))
def test_it(number):
    with Path("ran").open("a") as ran:
        ran.write(f"{Path(__file__).name} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""


NEEDING_A_RELEASE = f"""{RECORDING}
@pytest.fixture(autouse=True)
def releases(): ...
"""


LOST = f"""{RECORDING}
def test_that_ends_its_worker():
    os._exit(9)

def test_after_it():
    test_it(5)
"""


# Tests are sent to a worker that was there when they were chosen for it.
LATE = """
import time
from xdist.workermanage import WorkerController

send = WorkerController.send_runtest_some

def late(self, indices):
    time.sleep(0.5)
    send(self, indices)

WorkerController.send_runtest_some = late
"""


def run_of(
    modules: Mapping[str, str], folder: Path, count: int
) -> tuple[subprocess.CompletedProcess[str], dict[str, list[str]]]:
    """Run tests in ``count`` workers; return which ran tests of each module, the first to run ahead."""
    for module, code in modules.items():
        (folder / module).write_text(code)
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-n",
        f"{count}",
        "--dist",
        "loadgroup",
        "-p",
        "support.collection",
    )
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    found: dict[str, list[str]] = {}
    for line in (folder / "ran").read_text().splitlines():
        module, worker = line.split()
        found.setdefault(module, []).append(worker)
    return done, found


def workers_of(modules: Mapping[str, str], folder: Path, count: int = 2) -> dict[str, set[str]]:
    """Return which workers ran tests of each module, all of which pass."""
    done, found = run_of(modules, folder, count)
    assert done.returncode == 0, done.stdout
    return {module: set(workers) for module, workers in found.items()}


def test_all_tests_of_a_module_run_in_one_worker_and_both_workers_have_some(tmp_path: Path) -> None:
    found = workers_of({"test_one.py": RECORDING, "test_other.py": RECORDING}, tmp_path)
    assert [len(workers) for workers in found.values()] == [1, 1]
    assert found["test_one.py"] != found["test_other.py"]


def test_modules_that_need_no_release_run_first(tmp_path: Path) -> None:
    found = workers_of({"test_one.py": NEEDING_A_RELEASE, "test_other.py": RECORDING}, tmp_path, count=1)
    assert list(found) == ["test_other.py", "test_one.py"]


@pytest.mark.parametrize(("count", "conftest"), crossed((1, 2), ("", LATE), one_in=2))
def test_a_worker_that_dies_fails_one_test_and_the_rest_run_once(
    tmp_path: Path, count: int, conftest: str
) -> None:
    modules = {
        "test_done.py": RECORDING,
        "test_lost.py": LOST,
        "test_other.py": RECORDING,
        "test_last.py": RECORDING,
    }
    done, found = run_of({**modules, "conftest.py": conftest}, tmp_path, count)
    assert done.returncode == 1, done.stdout
    assert {module: len(tests) for module, tests in found.items()} == {
        "test_done.py": 5,
        "test_lost.py": 6,
        "test_other.py": 5,
        "test_last.py": 5,
    }
    assert "1 failed, 21 passed" in done.stdout
    assert "crashed while running 'test_lost.py::test_that_ends_its_worker'" in done.stdout


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("tests/differential/test_trees.py::test_a", "tests/differential/test_hybrid.py::test_b[x::y]", True),
        ("tests/plan/test_build.py::test_a", "tests/plan/test_build.py::test_b[tests/differential/]", True),
        ("tests/differential/test_trees.py::test_a", "tests/differential/test_backdated.py::test_a", False),
        ("tests/plan/test_build.py::test_a", "tests/plan/test_cache.py::test_a", False),
    ],
)
def test_modules_that_share_driven_trees_are_one_group(one: str, other: str, together: bool) -> None:
    assert (group_of(one) == group_of(other)) is together


def test_every_function_has_a_test_that_is_no_sweep(request: pytest.FixtureRequest) -> None:
    assert request.config.stash[UNREPRESENTED] == []


def test_the_last_release_of_each_shape_or_one_of_which_there_is_a_tree_represents_the_others() -> None:
    releases = ("0.5.14", "0.5.9", "0.5.11", "0.5.13.post1", "0.5.12", "0.5.12.post1", "0.5.20", "0.5.18")
    assert representative(releases) == {"0.5.9", "0.5.12.post1", "0.5.14", "0.5.18"}
    assert representative([*releases, "0.5.23"]) == {"0.5.9", "0.5.12.post1", "0.5.14", "0.5.23"}
    assert representative(["0.5.17", "0.5.20"]) == {"0.5.20"}
    assert representative(["0.5.11", "0.5.13"]) == {"0.5.11", "0.5.13"}


def test_modules_have_one_release_each_and_every_release_together() -> None:
    releases = {"0.5.12.post1", "0.5.14", "0.5.23"}
    chosen = [one_of(releases, f"tests/differential/test_{name}.py") for name in range(20)]
    assert {len(one) for one in chosen} == {1}
    assert frozenset().union(*chosen) == releases


def test_a_few_patches_have_every_kind_of_edit_that_any_patch_has() -> None:
    chosen = representatives(PATCHES)
    kinds = [
        {type(edit.kind) for patch in PATCHES if patch.id in names for edit in patch.edits}
        for names in (chosen, {patch.id for patch in PATCHES})
    ]
    assert kinds[0] == kinds[1]
    assert 0 < len(chosen) < len(PATCHES) / 2
