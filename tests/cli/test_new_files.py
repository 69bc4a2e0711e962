"""A command that wrote says at its end what ``git commit -a`` would leave out, and how git gets to know it."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.repositories import committing
from support.toys import add_patch, git, new_file_edit

from patchkit.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


def said(*words: object) -> str:
    """Run a command, and return the git command that it names at its end, empty if it names none."""
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    last = done.stdout.splitlines()[-1]
    match = re.fullmatch("git commit -a leaves new files out: (git .*) adds them.", last)
    assert match or "git commit" not in done.stdout
    return match[1] if match else ""


def commit_all(root: Path) -> None:
    git(root, "commit", "-qam", "Patched")
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("start", [".", "python/sglang", ".."])
def test_a_new_record_and_a_new_file_reach_the_commit(
    checkout: CheckoutTree, patch_folder: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    add_patch(patch_folder, "t-new", new_file_edit("srt/made.py", "made = 1"))
    root = committing(checkout).root
    monkeypatch.chdir(root / start)
    command = said("apply", root, "t-new")
    subprocess.run(command.split(), cwd=root / start, check=True)
    commit_all(root)
    assert said("apply", root, "t-flag").endswith("patchkit.lock")
    git(root, "add", "patchkit.lock")
    commit_all(root)
    assert said("revert", root, "t-flag") == "", "git knows what is gone"
    commit_all(root)


def test_a_vendored_runtime_is_named_by_its_folder(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout.root)
    command = said("apply", ".", "--runtime", "vendored")
    assert set(command.split()) >= {"git", "add", "patchkit.lock"}
    assert len(command) < 80


def test_nothing_is_said_where_there_is_nothing_to_add(checkout: CheckoutTree, tree: CheckoutTree) -> None:
    """Of a record that git ignores, a dry run, a folder that is no checkout, and after a commit."""
    assert said("apply", checkout.root, "--dry-run") == ""
    assert said("apply", tree.root) == ""
    assert said("apply", committing(checkout).root, "t-flag", "--commit") == ""
    (checkout.root / ".git/info/exclude").write_text("patchkit.lock\n")
    assert said("apply", checkout.root) == ""
