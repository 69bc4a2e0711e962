"""In a rebase with a conflict, apply and revert make what does not need its file, and refuse the rest."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from support.releases import run
from support.repositories import committing
from support.toys import CRLF, MIRROR, SOURCES, add_patch, attribute, edit, git

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

REFUSAL = f"error: conflict markers of a merge\n  --> {MIRROR}:5\nhelp: resolve the conflict and "


@pytest.fixture
def rebasing(checkout: CheckoutTree, patch_folder: Path) -> CheckoutTree:
    """A fork with committed patches of two files, in one of which a rebase has a conflict, and a third to apply."""
    add_patch(patch_folder, "t-near", attribute(CRLF, "Backend", "near = 1"))
    add_patch(patch_folder, "t-far", attribute(CRLF, "Backend", "far = 1"))
    fork = committing(checkout)
    run("apply", fork.root, "t-guard", "t-near", "--commit")
    git(fork.root, "branch", "theirs")
    for branch in ("-", "theirs"):
        git(fork.root, "checkout", "-q", *(() if branch == "-" else (branch,)))
        edit(fork, MIRROR, b"copies = 0", b"copies = 1" if branch == "-" else b"copies = 2")
        git(fork.root, "commit", "-qam", "Own")
    with pytest.raises(subprocess.CalledProcessError):
        git(fork.root, "rebase", "@{-1}")
    assert (fork.read(MIRROR) or b"").count(b"<<<<<<<") == 1
    return fork


def test_what_needs_no_file_with_a_conflict_is_applied_and_reverted(rebasing: CheckoutTree) -> None:
    marked = rebasing.read(MIRROR)
    run("apply", rebasing.root, "t-far")
    assert run("revert", rebasing.root, "t-near").output.startswith("Reverted: t-near.\n")
    assert run("revert", rebasing.root, "t-far").output.startswith("Reverted: t-far.\n")
    assert (rebasing.read(MIRROR), rebasing.read(CRLF)) == (marked, SOURCES[CRLF])


def test_what_needs_a_file_with_a_conflict_is_refused_with_the_reason(rebasing: CheckoutTree) -> None:
    assert REFUSAL in run("apply", rebasing.root, "t-guard", code=4).output
    for words in (("t-guard",), ()):
        assert REFUSAL in run("revert", rebasing.root, *words, code=3).output
    kept = run("revert", rebasing.root, "--keep-going", code=1).output
    assert kept.startswith("Reverted: t-near.\n")
    assert f"! t-guard: {MIRROR}:5: conflict markers of a merge: resolve the conflict" in kept
