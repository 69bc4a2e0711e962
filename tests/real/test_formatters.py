"""A file that a formatter passed before it was patched passes it afterwards, its imports sorted as they were."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from ruff.__main__ import find_ruff_bin
from support.releases import HAVING, PATCHES, REFERENCE, Releases

from patchkit.plan.build import make_plan
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from patchkit.plan.status import Plan
    from patchkit.tree.tree import OverlayTree

pytestmark = pytest.mark.usefixtures("_parsed_once")

FORMATTING = ("format", "--check")
SORTING = (
    "check",
    "--output-format=concise",
    "--select",
    "I",
    "--config",
    "src = []",
    "--config",
    "lint.isort.known-first-party = ['sglang']",
)


def passing(files: Mapping[str, bytes], command: tuple[str, ...], width: int, folder: Path) -> set[str]:
    """Return the files that ruff has nothing to say against."""
    folder.mkdir()
    for number, content in enumerate(files.values()):
        (folder / f"{number}.py").write_bytes(content)
    options = ("--isolated", "--no-cache", "--config", f"line-length = {width}")
    checked = subprocess.run(
        (find_ruff_bin(), *command, *options, "."), cwd=folder, capture_output=True, check=False
    )
    output = checked.stdout.decode()
    named = re.findall(r"^(?:Would reformat: | *--> )?(\d+)\.py\b", output, re.MULTILINE)
    failing = {int(number) for number in named}
    assert checked.returncode == bool(failing), output + checked.stderr.decode()
    return {file for number, file in enumerate(files) if number not in failing}


def before_and_after(
    plan: Plan, command: tuple[str, ...], width: int, folder: Path
) -> tuple[set[str], set[str]]:
    old = {change.file: change.before for change in plan.changes if change.before is not None}
    new = {change.file: change.after for change in plan.changes if change.after is not None}
    return passing(old, command, width, folder / "before"), passing(new, command, width, folder / "after")


@pytest.fixture(
    scope="module", params=[REFERENCE, HAVING[-1], pytest.param("backdated", marks=pytest.mark.sweep)]
)
def plan(request: pytest.FixtureRequest, releases: Releases, backdated: OverlayTree) -> Plan:
    """The plan for a release of either kind, and for the files of upstream's main as the release's folder has them."""
    if request.param == "backdated":
        return make_plan(backdated, PATCHES)
    return releases.plan(request.param)


@pytest.mark.parametrize("command", [FORMATTING, SORTING], ids=["format", "imports"])
def test_what_passed_before_passes_after(plan: Plan, command: tuple[str, ...], tmp_path: Path) -> None:
    before, after = before_and_after(plan, command, 88, tmp_path)
    assert len(before) >= 5
    assert before - after == set()


@pytest.mark.parametrize(
    ("width", "tool"), [pytest.param(80, "black", marks=pytest.mark.sweep), (120, "ruff")]
)
def test_what_passed_at_the_line_length_of_its_project_passes_after(
    releases: Releases, width: int, tool: str, tmp_path: Path
) -> None:
    tree = releases.copy(REFERENCE, tmp_path / "tree")
    (tree.root / "pyproject.toml").write_text(f"[tool.{tool}]\nline-length = {width}\n")
    files = [change.file for change in releases.plan(REFERENCE).changes]
    options = ("--isolated", "--no-cache", "--config", f"line-length = {width}")
    subprocess.run((find_ruff_bin(), "format", "--quiet", *options, *files), cwd=tree.package, check=True)
    plan = make_plan(open_tree(tree.root), PATCHES)
    before, after = before_and_after(plan, FORMATTING, width, tmp_path)
    assert before == after == set(files)
