"""An uncommitted port is whole, and is reverted by its name, after a stash and beside patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.releases import run
from support.repositories import committing, patched_states
from support.toys import ABRUPT, MIRROR, SOURCES, add_patch, attribute, checked_in, edit, everything, git

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

FRESH = "srt/managers/fresh/new.py"
LATER = (b"        return self.copies\n", b"        self.asked = True\n        return self.copies\n")


@pytest.fixture
def fork(checkout: CheckoutTree, patch_folder: Path) -> CheckoutTree:
    add_patch(patch_folder, "t-far", attribute(ABRUPT, "Worker", "far = 1"))
    return committing(checkout)


@pytest.fixture
def theirs(tmp_path: Path) -> CheckoutTree:
    """A commit that changes a file and creates another."""
    tree = committing(checked_in(tmp_path / "theirs"))
    edit(tree, MIRROR, *LATER)
    (tree.package / FRESH).parent.mkdir()
    (tree.package / FRESH).write_bytes(b"fresh = 1\n")
    git(tree.root, "add", ".")
    git(tree.root, "commit", "-qm", "Something of theirs (#77)")
    return tree


@pytest.fixture(params=[True, False], ids=["patched", "unpatched"])
def stashed(theirs: CheckoutTree, fork: CheckoutTree, request: pytest.FixtureRequest) -> CheckoutTree:
    """A fork, with or without a committed patch, in which the port was stashed."""
    if request.param:
        run("apply", fork.root, "t-flag", "--only", "--commit")
    return port_and_stash(theirs, fork)


def port_and_stash(theirs: CheckoutTree, fork: CheckoutTree) -> CheckoutTree:
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    git(fork.root, "stash", "--include-untracked")
    assert git(fork.root, "status", "--porcelain") == ""
    return fork


def pop_and_revert(tree: CheckoutTree) -> None:
    """Take the port out of the stash, and revert it: the status is true, and the other code stays."""
    before, states = everything(tree.package / "srt"), patched_states(tree)
    git(tree.root, "stash", "pop")
    assert (tree.read(MIRROR) or b"").count(b"self.asked = True") == 1
    assert tree.read(FRESH) == b"fresh = 1\n"
    assert patched_states(tree) == states
    assert run("revert", tree.root, "77").output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert everything(tree.package / "srt") == before
    assert patched_states(tree) == states


@pytest.mark.parametrize(
    "words", [("status",), ("diff",), ("apply", "--dry-run"), ("apply", "--continue")], ids=" ".join
)
def test_a_stashed_port_after_a_command_that_changes_nothing(
    stashed: CheckoutTree, words: tuple[str, ...]
) -> None:
    run(words[0], stashed.root, *words[1:])
    pop_and_revert(stashed)


@pytest.mark.parametrize("name", ["t-guard", "t-stop"])
def test_a_stashed_port_after_patches_of_the_same_file_were_committed(
    stashed: CheckoutTree, name: str
) -> None:
    run("apply", stashed.root, name, "--commit")
    pop_and_revert(stashed)
    assert git(stashed.root, "status", "--porcelain") == ""


def test_a_stashed_port_after_a_patch_of_another_file_was_applied(stashed: CheckoutTree) -> None:
    run("apply", stashed.root, "t-far")
    pop_and_revert(stashed)


def test_a_stashed_port_after_a_patch_of_another_file_was_applied_and_reverted(stashed: CheckoutTree) -> None:
    run("apply", stashed.root, "t-far")
    run("revert", stashed.root, "t-far")
    pop_and_revert(stashed)


def test_a_stashed_port_after_a_revert_that_found_nothing(theirs: CheckoutTree, fork: CheckoutTree) -> None:
    run("apply", fork.root, "t-flag", "--only", "--commit")
    port_and_stash(theirs, fork)
    assert run("revert", fork.root, "77").output == "Nothing to revert.\n"
    pop_and_revert(fork)


@pytest.mark.parametrize("words", [(), ("t-flag",)], ids=["all", "the patch"])
def test_beside_a_committed_patch_that_is_reverted(
    theirs: CheckoutTree, fork: CheckoutTree, words: tuple[str, ...]
) -> None:
    before = everything(fork.package / "srt")
    run("apply", fork.root, "t-flag", "--only", "--commit")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    assert run("revert", fork.root, *words).output.startswith("Reverted: t-flag.\n")
    assert fork.read(MIRROR) == SOURCES[MIRROR].replace(*LATER)
    assert run("revert", fork.root, "77").output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert everything(fork.package / "srt") == before


@pytest.mark.parametrize(
    "place", [(ABRUPT, "Worker"), (MIRROR, "Mirror")], ids=["another file", "the same file"]
)
def test_beside_a_committed_patch_and_one_that_is_reverted(
    theirs: CheckoutTree, fork: CheckoutTree, patch_folder: Path, place: tuple[str, str]
) -> None:
    add_patch(patch_folder, "t-far", attribute(*place, "far = 1"))
    run("apply", fork.root, "t-flag", "--only", "--commit")
    before = everything(fork.package / "srt")
    run("port", "HEAD", "--repo", theirs.root, "--onto", fork.root)
    run("apply", fork.root, "t-far")
    run("revert", fork.root, "t-far")
    assert run("revert", fork.root, "77").output.startswith("Reverted: 77.\n\nChanged 2 files.")
    assert everything(fork.package / "srt") == before
