"""A commit is answered for alike in the checkout that was patched and in any clone, whatever git did in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.toys import CRLF, MIRROR, add_patch, attribute, contents, edit, git, rewriting

from patchkit import api
from patchkit.errors import ConflictError
from patchkit.findings.finding import Confidence
from patchkit.patchset.load import patches as load
from patchkit.plan.status import State
from patchkit.tree.tree import open_tree
from patchkit.verify.result import Outcome
from patchkit.verify.subject import Terms

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


@pytest.fixture
def patches(patch_folder: Path) -> PatchSet:
    """The toys, and one that makes the same of whatever number stands there."""
    add_patch(
        patch_folder, "t-none", rewriting("none", f"{MIRROR}::Mirror", "copies = $value", "copies = None")
    )
    return load()


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    """A checkout in which git knows who commits."""
    git(checkout.root, "config", "user.name", "A Maintainer")
    git(checkout.root, "config", "user.email", "maintainer@example.com")
    git(checkout.root, "branch", "-M", "base")
    return checkout


def commit(tree: CheckoutTree, why: str = "A change") -> None:
    git(tree.root, "add", "--all", ".")
    git(tree.root, "commit", "-qm", why)


def clone(tree: CheckoutTree, folder: Path, *options: str) -> CheckoutTree:
    git(folder, "clone", "-q", *options, tree.root.as_uri(), "clone")
    return open_tree(folder / "clone")


def in_place(tree: CheckoutTree, patches: PatchSet) -> set[str]:
    return {status.patch.id for status in api.status(tree, patches) if status.state is State.APPLIED}


def failed(tree: CheckoutTree, patches: PatchSet) -> list[str]:
    results = api.verify(tree, patches, Terms(Confidence.LIKELY)).results
    return [result.check for result in results if result.outcome is Outcome.FAILED]


def patched_on(tree: CheckoutTree, branch: str, patches: PatchSet, *ids: str) -> dict[str, bytes | None]:
    git(tree.root, "switch", "-qc", branch, "base")
    api.commit(tree, patches, ids, only=True)
    return contents(tree)


def test_revert_that_git_undid_comes_again_and_takes_all(fork: CheckoutTree, patches: PatchSet) -> None:
    before = contents(fork)
    api.commit(fork, patches, ("t-flag", "t-guard"))
    patched = contents(fork)
    api.revert(fork, patches)
    git(fork.root, "checkout", "-q", ".")
    assert contents(fork) == patched
    assert failed(fork, patches) == []
    assert api.revert(fork, patches).patches == ("t-flag", "t-guard")
    assert contents(fork) == before


def test_each_of_two_branches_with_other_patches_verifies_and_reverts(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    before = contents(fork)
    patched_on(fork, "one", patches, "t-flag")
    patched_on(fork, "two", patches, "t-guard", "t-stop")
    for branch, ids in (("one", {"t-flag"}), ("two", {"t-flag", "t-guard", "t-stop"}), ("one", {"t-flag"})):
        git(fork.root, "switch", "-q", branch)
        assert in_place(fork, patches) == ids
        assert failed(fork, patches) == []
        assert set(api.revert(fork, patches).patches) == ids
        assert contents(fork) == before
        git(fork.root, "checkout", "-q", ".")


def test_patches_of_two_branches_that_git_merged_all_go(fork: CheckoutTree, tmp_path: Path) -> None:
    edit(fork, MIRROR, b"    def host", b"    one = 1\n\n    two = 2\n\n    three = 3\n\n    def host")
    add_patch(
        tmp_path / "more", "x-none", rewriting("none", f"{MIRROR}::Mirror", "copies = 0", "copies = None")
    )
    add_patch(tmp_path / "more", "x-depth", rewriting("depth", MIRROR, "depth = 1", "depth = 2"))
    patches = load([tmp_path / "more"])
    commit(fork)
    before = contents(fork)
    patched_on(fork, "one", patches, "x-none")
    patched_on(fork, "two", patches, "x-depth")
    git(fork.root, "merge", "-q", "--no-edit", "one")
    for tree in (clone(fork, tmp_path), fork):
        assert in_place(tree, patches) == {"x-none", "x-depth"}
        assert set(api.revert(tree, patches).patches) == {"x-none", "x-depth"}
        assert contents(tree) == before


@pytest.mark.parametrize("edited", [False, True])
def test_verify_says_in_a_clone_what_it_says_where_the_patches_were_applied(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path, edited: bool
) -> None:
    api.commit(fork, patches, ("t-flag",))
    if edited:
        edit(fork, MIRROR, b"depth = 1", b"depth = 1\nmine = 1")
        commit(fork)
    verdicts = [api.verify(t, patches, Terms(Confidence.LIKELY)) for t in (fork, clone(fork, tmp_path))]
    here, there = ([(r.check, r.outcome, r.summary, r.findings) for r in v.results] for v in verdicts)
    assert here == there
    assert failed(fork, patches) == []


def test_record_of_another_branch_with_the_same_bytes_is_not_taken_for_this_one(
    fork: CheckoutTree, patches: PatchSet
) -> None:
    """Both branches have the same patched file, and had other numbers before."""
    one = patched_on(fork, "one", patches, "t-none")
    git(fork.root, "switch", "-qc", "two", "base")
    edit(fork, MIRROR, b"copies = 0", b"copies = 5")
    commit(fork)
    before = contents(fork)
    for file, text in one.items():
        (fork.package / file).write_bytes(text or b"")
    commit(fork, "Patched elsewhere")
    api.revert(fork, patches)
    assert contents(fork) == before


def test_patched_file_that_git_moved_is_reverted_in_its_new_place(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = fork.read(MIRROR)
    api.commit(fork, patches, ("t-guard",), only=True)
    moved = "srt/managers/moved.py"
    git(fork.package, "mv", MIRROR, moved)
    commit(fork, "Move it")
    for tree in (clone(fork, tmp_path), fork):
        assert api.revert(tree, patches).files == (moved,)
        assert tree.read(moved) == before


def test_file_that_was_moved_and_patched_in_one_commit_is_reverted(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    before = fork.read(MIRROR)
    moved = "srt/managers/moved.py"
    git(fork.package, "mv", MIRROR, moved)
    api.apply(fork, patches, ("t-guard", "t-none"), only=True, allow_dirty=True)
    commit(fork, "Move and patch it")
    for tree in (clone(fork, tmp_path), fork):
        api.revert(tree, patches)
        assert tree.read(moved) == before


def test_newer_base_that_was_merged_stays(fork: CheckoutTree, patches: PatchSet, tmp_path: Path) -> None:
    patched_on(fork, "mine", patches, "t-flag", "t-guard")
    git(fork.root, "switch", "-q", "base")
    edit(fork, MIRROR, b"depth = 1", b"depth = 1\nnewer = 1")
    commit(fork)
    base = contents(fork)
    git(fork.root, "switch", "-q", "mine")
    git(fork.root, "merge", "-q", "--no-edit", "base")
    assert failed(fork, patches) == []
    for tree in (clone(fork, tmp_path), fork):
        api.revert(tree, patches)
        assert contents(tree) == base


def test_patch_that_is_not_at_hand_beside_others_is_named_and_nothing_is_half_reverted(
    fork: CheckoutTree, patches: PatchSet, tmp_path: Path
) -> None:
    add_patch(tmp_path / "own", "x-own", attribute(MIRROR, "Mirror", "own = 1"))
    api.commit(fork, load([tmp_path / "own"]), ("t-flag", "x-own"), only=True)
    edit(fork, MIRROR, b"depth = 1", b"depth = 1\nmine = 1")
    commit(fork)
    fresh = clone(fork, tmp_path)
    before = contents(fresh)
    with pytest.raises(ConflictError, match=r"x-own: in the code and not at hand: .*--patches DIR"):
        api.revert(fresh, patches)
    assert contents(fresh) == before
    assert api.revert(fresh, patches, ("t-flag",)).patches == ("t-flag",)
    assert in_place(fresh, load([tmp_path / "own"])) == {"x-own"}


def test_what_a_full_clone_would_write_comes_in_the_order_of_a_shallow_one(
    fork: CheckoutTree, tmp_path: Path, patch_folder: Path
) -> None:
    both = attribute(MIRROR, "Mirror", "first = 1"), attribute(CRLF, "Backend", "other = 1")
    add_patch(patch_folder, "u-both", *both)
    add_patch(patch_folder, "u-later", attribute(MIRROR, "Mirror", "later = 1"))
    patches = load()
    api.commit(fork, patches, ("u-both", "u-later"))
    api.revert(fork, patches, ("u-both",))
    commit(fork)
    planned = []
    for name, options in (("full", ()), ("shallow", ("--depth", "1"))):
        (tmp_path / name).mkdir()
        tree = clone(fork, tmp_path / name, *options)
        planned.append([change.file for change in api.diff(tree, patches, ("u-both",)).changes])
    assert planned == [[MIRROR, CRLF]] * 2
