"""What several tests share is made once: workers are given groups of tests, never single ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.collection import group_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SAYING = """
import os
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(5))
def test_it(number):
    with Path("said").open("a") as said:
        said.write(f"{Path(__file__).name} {os.environ['PYTEST_XDIST_WORKER']}\\n")
"""


NEEDING_A_RELEASE = f"""{SAYING}
@pytest.fixture(autouse=True)
def releases(): ...
"""


def workers_of(modules: Mapping[str, str], folder: Path, count: int = 2) -> dict[str, set[str]]:
    """Return which workers ran tests of each module, the one that was first to run ahead."""
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
    )
    assert done.returncode == 0, done.stdout
    found: dict[str, set[str]] = {}
    for line in (folder / "said").read_text().splitlines():
        module, worker = line.split()
        found.setdefault(module, set()).add(worker)
    return found


def test_all_tests_of_a_module_run_in_one_worker_and_both_workers_have_some(tmp_path: Path) -> None:
    found = workers_of({"test_one.py": SAYING, "test_other.py": SAYING}, tmp_path)
    assert [len(workers) for workers in found.values()] == [1, 1]
    assert found["test_one.py"] != found["test_other.py"]


def test_modules_that_need_no_release_run_first(tmp_path: Path) -> None:
    found = workers_of({"test_one.py": NEEDING_A_RELEASE, "test_other.py": SAYING}, tmp_path, count=1)
    assert list(found) == ["test_other.py", "test_one.py"]


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
