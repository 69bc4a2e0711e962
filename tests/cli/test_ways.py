"""Each command goes the way from the command line to the bytes that docs/architecture.md shows, in that order."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.toys import git, patch_text, rewriting, write_package

from patchkit.cli import main

if TYPE_CHECKING:
    from types import FrameType

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
WAYS = {
    command: re.findall(r"^\d+\. `(\w+)` in `([\w./]+)`: .+$", steps, re.MULTILINE)
    for command, steps in re.findall(r"^`(\w+)`:\n\n((?:\d+\. .+\n)+)", PAGE, re.MULTILINE)
}
DESK = "srt/desk.py"
SOURCE = b"""\
class Desk:
    days = 14

    def lend(self, book):
        due = self.today + self.days
        return due
"""
OURS = patch_text("longer", rewriting("longer", f"{DESK}::Desk", "days = 14", "days = 28"))


def calls_of(*arguments: object) -> list[tuple[str, str]]:
    """Run a command that succeeds, and return the functions of patchkit that it calls, each once, and their files."""
    calls: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(REPOSITORY / "patchkit")):
            calls[frame.f_code.co_name, Path(path).relative_to(REPOSITORY).as_posix()] = None

    sys.setprofile(note)
    try:
        result = CliRunner().invoke(main, list(map(str, arguments)))
    finally:
        sys.setprofile(None)
    assert result.exit_code in {0, 1}, result.output
    return list(calls)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout in which a person has added a line to the file that is changed."""
    (tmp_path / "patches" / "longer").mkdir(parents=True)
    (tmp_path / "patches" / "longer" / "patch.toml").write_text(OURS)
    write_package(tmp_path / "fork" / "sglang", {"__init__.py": b"", DESK: SOURCE})
    git(tmp_path, "init", "-q", "fork")
    git(tmp_path / "fork", "add", ".")
    git(tmp_path / "fork", "commit", "-qm", "As it was")
    return tmp_path / "fork"


def edited(tree: Path) -> None:
    desk = tree / "sglang" / DESK
    desk.write_bytes(desk.read_bytes() + b"\n    def take(self):\n        self.days += 1\n")
    git(tree, "commit", "-qam", "Ours")


def applied(tree: Path) -> list[tuple[str, str]]:
    return calls_of("apply", tree, "longer", "--patches", tree.parent / "patches")


def reverted(tree: Path) -> list[tuple[str, str]]:
    applied(tree)
    edited(tree)
    return calls_of("revert", tree, "longer", "--patches", tree.parent / "patches")


def ported(tree: Path) -> list[tuple[str, str]]:
    desk = tree / "sglang" / DESK
    desk.write_bytes(SOURCE.replace(b"        return", b"        self.lent += 1\n        return"))
    git(tree, "commit", "-qam", "Theirs")
    git(tree, "tag", "theirs")
    git(tree, "reset", "-q", "--hard", "HEAD^")
    edited(tree)
    return calls_of("port", "theirs", "--repo", tree, "--onto", tree)


@pytest.mark.parametrize("command", ["apply", "revert", "port"])
def test_the_way_of_a_command_is_ten_steps_in_the_order_in_which_it_calls_them(
    command: str, tree: Path
) -> None:
    way = WAYS[command]
    assert len(way) == 10
    calls = {"apply": applied, "revert": reverted, "port": ported}[command](tree)
    assert [step for step in way if step not in calls] == []
    assert [step for step in calls if step in way] == way
