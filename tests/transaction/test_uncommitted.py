from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from support.toys import COPIES, CRLF, MIRROR, apply, edit, git, refused, write_package

from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree


def test_committed_tree_is_patched(checkout: CheckoutTree) -> None:
    assert apply(checkout)


@pytest.mark.parametrize("variable", ["GIT_CEILING_DIRECTORIES", "GIT_OBJECT_DIRECTORY", "GIT_DIR"])
def test_variables_of_git_do_not_hide_an_uncommitted_change(
    checkout: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "nowhere" if "OBJECT" in variable else tmp_path))
    edit(checkout, MIRROR, b"return", b"return 1 +")
    refused(checkout, "uncommitted changes")


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_flags_of_the_index_do_not_hide_an_uncommitted_change(checkout: CheckoutTree, flag: str) -> None:
    git(checkout.root, "update-index", flag, f"python/sglang/{MIRROR}")
    edit(checkout, MIRROR, b"return", b"return 1 +")
    refused(checkout, "uncommitted changes")


def test_ignored_target_of_a_tracked_tree_is_refused(checkout: CheckoutTree) -> None:
    git(checkout.root, "rm", "-q", "--cached", f"python/sglang/{MIRROR}")
    (checkout.root / ".gitignore").write_text("mirror.py\n")
    git(checkout.root, "add", ".gitignore")
    git(checkout.root, "commit", "-qm", "Ignore the mirror")
    refused(checkout, "uncommitted changes")


def test_what_was_staged_otherwise_is_refused(checkout: CheckoutTree) -> None:
    before = (checkout.package / MIRROR).read_bytes()
    edit(checkout, MIRROR, b"return", b"return 1 +")
    git(checkout.root, "add", ".")
    (checkout.package / MIRROR).write_bytes(before)
    refused(checkout, "uncommitted changes")


def junk_head(root: Path) -> None:
    (root / ".git" / "HEAD").write_text("junk\n")


def junk_branch(root: Path) -> None:
    (branch,) = (root / ".git" / "refs" / "heads").iterdir()
    branch.write_text("junk\n")


def lost_objects(root: Path) -> None:
    shutil.rmtree(root / ".git" / "objects")


def no_objects(root: Path) -> None:
    for folder in (root / ".git" / "objects").iterdir():
        shutil.rmtree(folder)


def nowhere(root: Path) -> None:
    shutil.rmtree(root / ".git")
    (root / ".git").write_text("gitdir: /nowhere\n")


def elsewhere(root: Path) -> None:
    git(root, "config", "core.worktree", "/")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("damage", [junk_head, junk_branch, lost_objects, no_objects, nowhere, elsewhere])
def test_git_that_cannot_answer_is_a_refusal(
    tmp_path: Path, damage: Callable[[Path], None], inside: bool
) -> None:
    above = tmp_path / "above"
    root = above / "fork"
    write_package(root / "python" / "sglang")
    for folder in (above, root) if inside else (root,):
        git(folder, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "As upstream has it")
    tree = open_tree(root)
    damage(root)
    edit(tree, MIRROR, b"return", b"return 1 +")
    refused(tree, r"git cannot read what .* has committed and staged .*--allow-dirty to continue\.$")
    assert apply(tree, COPIES, allow_dirty=True)


def test_nothing_is_committed_before_the_first_commit(tmp_path: Path) -> None:
    root = tmp_path / "fork"
    write_package(root / "python" / "sglang")
    git(tmp_path, "init", "-q", "fork")
    git(root, "add", ".")
    refused(open_tree(root), "uncommitted changes")


def test_line_ends_that_git_turned_are_no_change(tmp_path: Path) -> None:
    root = tmp_path / "fork"
    write_package(root / "python" / "sglang")
    git(tmp_path, "init", "-q", "fork")
    git(root, "-c", "core.autocrlf=input", "add", ".")
    git(root, "commit", "-qm", "As upstream has it")
    assert b"\r\n" in (root / "python" / "sglang" / CRLF).read_bytes()
    assert apply(open_tree(root))


def test_worktree_and_submodule_are_checkouts(checkout: CheckoutTree, tmp_path: Path) -> None:
    git(checkout.root, "worktree", "add", "-q", str(tmp_path / "other"))
    tree = open_tree(tmp_path / "other")
    edit(tree, MIRROR, b"return", b"return 1 +")
    refused(tree, "uncommitted changes")
    git(tmp_path, "init", "-q", "above")
    add = ("submodule", "--quiet", "add", str(checkout.root), "fork")
    git(tmp_path / "above", "-c", "protocol.file.allow=always", *add)
    within = open_tree(tmp_path / "above" / "fork")
    edit(within, MIRROR, b"return", b"return 1 +")
    refused(within, "uncommitted changes")


def test_commands_of_the_tree_s_own_configuration_are_not_run(checkout: CheckoutTree, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\ncat\n")
    trap.chmod(0o755)
    (checkout.root / ".gitattributes").write_text("*.py filter=trap diff=trap\n")
    for key in ("core.fsmonitor", "filter.trap.clean", "filter.trap.smudge", "filter.trap.process"):
        git(checkout.root, "config", key, str(trap))
    for key in ("diff.trap.command", "diff.trap.textconv", "diff.external", "core.sshCommand", "core.pager"):
        git(checkout.root, "config", key, str(trap))
    os.utime(checkout.package / MIRROR, (0, 0))
    assert apply(checkout)
    assert not (tmp_path / "ran").exists()
