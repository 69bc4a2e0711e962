from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from support.toys import ABRUPT, MIRROR, git

from patchkit import api
from patchkit.cli import main
from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.patchset import load

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

pytestmark = pytest.mark.usefixtures("patch_folder")


@pytest.fixture
def fork(checkout: CheckoutTree) -> CheckoutTree:
    """A vendor's branch on an old release; the new release moved a method and is patched too."""
    root = checkout.root
    git(root, "config", "user.name", "A Maintainer")
    git(root, "config", "user.email", "maintainer@example.com")
    git(root, "branch", "-M", "vendor")
    git(root, "checkout", "-qb", "release")
    text = (checkout.package / MIRROR).read_text()
    (checkout.package / MIRROR).write_text(text.replace("    copies = 0", "    pages = 64\n    copies = 0"))
    git(root, "commit", "-qam", "The new release")
    git(root, "branch", "plain")
    return checkout


def patched(tree: CheckoutTree, *branches: str) -> None:
    for branch in branches:
        git(tree.root, "checkout", "-q", branch)
        api.commit(tree, load.patches())


def moves(tree: CheckoutTree, ref: str) -> dict[str, tuple[str, str]]:
    return {move.patch: (move.now, move.then) for move in api.rebase_check(tree, load.patches(), ref)}


def test_each_patch_is_told_what_it_will_be(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-qb", "newer", "plain")
    text = (fork.package / MIRROR).read_text()
    (fork.package / MIRROR).write_text(text.replace("copies = 0", "copies = 0\n    guard = 1"))
    (fork.package / ABRUPT).write_text("x = 1\n")
    git(fork.root, "commit", "-qam", "Upstream has one, and one has nowhere to go")
    patched(fork, "vendor")
    assert moves(fork, "newer") == {
        "t-flag": ("applied", "pending"),
        "t-guard": ("applied", "upstream"),
        "t-stop": ("applied", "conflict"),
    }


def test_the_command_exits_1_where_a_patch_conflicts(fork: CheckoutTree) -> None:
    git(fork.root, "checkout", "-q", "vendor")
    ran = CliRunner().invoke(main, ["rebase-check", str(fork.root), "--onto", "plain", "--json"])
    assert ran.exit_code == 0
    assert {told["then"] for told in json.loads(ran.stdout)["patches"]} == {"pending"}
    ran = CliRunner().invoke(main, ["rebase-check", str(fork.root), "--onto", "nowhere"])
    assert (ran.exit_code, ran.stderr.count("\n")) == (4, 1)


def test_git_alone_conflicts_where_merging_without_patches_does_not(fork: CheckoutTree) -> None:
    patched(fork, "release", "vendor")
    with pytest.raises(Exception, match="merge"):
        git(fork.root, "merge", "release")
    git(fork.root, "merge", "--abort")
    merged = api.merge(fork, load.patches(), "release")
    assert merged.merged == git(fork.root, "rev-parse", "release").strip()
    assert git(fork.root, "branch", "--merged").split() == ["plain", "release", "*", "vendor"]
    assert {status.state.value for status in api.status(fork, load.patches())} == {"applied"}
    assert b"pages = 64" in (fork.read(MIRROR) or b"")
    assert git(fork.root, "status", "--porcelain") == ""


def test_a_merge_that_conflicts_without_patches_is_a_persons(fork: CheckoutTree) -> None:
    patched(fork, "vendor")
    api.revert(fork, load.patches())
    text = (fork.package / MIRROR).read_text()
    (fork.package / MIRROR).write_text(text.replace("    copies = 0", "    pages = 16\n    copies = 0"))
    git(fork.root, "commit", "-qam", "The vendor's own")
    api.commit(fork, load.patches())
    with pytest.raises(ConflictError, match="also without any patch"):
        api.merge(fork, load.patches(), "release")
    (fork.package / MIRROR).write_text(text.replace("    copies = 0", "    pages = 32\n    copies = 0"))
    git(fork.root, "commit", "-qam", "merged")
    api.commit(fork, load.patches())
    assert {status.state.value for status in api.status(fork, load.patches())} == {"applied"}


def test_uncommitted_changes_are_refused(fork: CheckoutTree) -> None:
    patched(fork, "vendor")
    (fork.package / ABRUPT).write_text("x = 1\n")
    with pytest.raises(TreeError, match="uncommitted changes"):
        api.merge(fork, load.patches(), "plain")


def test_a_ref_that_is_none_is_refused(fork: CheckoutTree) -> None:
    patched(fork, "vendor")
    with pytest.raises(UsageError, match="no commit"):
        api.merge(fork, load.patches(), "nowhere")
    assert {status.state.value for status in api.status(fork, load.patches())} == {"applied"}
