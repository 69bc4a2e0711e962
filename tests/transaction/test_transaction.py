from __future__ import annotations

import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.toys import (
    ABRUPT,
    APPLIED,
    COPIES,
    CRLF,
    MIRROR,
    SOURCES,
    TOYS,
    apply,
    contents,
    edit,
    everything,
    git,
    refused,
    revert_patches,
    rewriting,
    toy,
    write_package,
)

from patchkit.errors import TreeError
from patchkit.plan.build import make_plan
from patchkit.plan.status import State
from patchkit.transaction.apply import Transaction
from patchkit.transaction.lock import exclusive
from patchkit.transaction.revert import recorded
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from pathlib import Path


def test_apply_writes_the_plan(tree: CheckoutTree) -> None:
    assert set(apply(tree)) == {MIRROR, CRLF, ABRUPT}
    assert {file: tree.read(file) for file in APPLIED} == APPLIED
    assert recorded(tree) == ("copies", "depth", "guard", "stride")


def test_second_apply_changes_nothing(tree: CheckoutTree) -> None:
    apply(tree)
    before = everything(tree.root)
    assert apply(tree) == ()
    assert everything(tree.root) == before


def test_plan_without_changes_leaves_no_trace(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    plan = replace(make_plan(tree, TOYS), changes=())
    assert Transaction(tree).commit(plan).files == ()
    assert everything(tree.root) == before


def test_outcome_tells_the_states_after_the_act(tree: CheckoutTree) -> None:
    plan = make_plan(tree, TOYS)
    conflicting = replace(plan.patches[0], state=State.CONFLICT, reason="why")
    plan = replace(plan, patches=(conflicting, *plan.patches[1:]))
    outcome = Transaction(tree).commit(plan)
    assert [status.state for status in outcome.patches] == [State.CONFLICT] + [State.APPLIED] * 3
    assert {edit.state for edit in outcome.patches[1].edits} == {State.APPLIED}


def test_check_writes_nothing_and_gives_the_same_result(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    checked = Transaction(tree).check(make_plan(tree, TOYS))
    assert everything(tree.root) == before
    assert checked == Transaction(tree).commit(make_plan(tree, TOYS))


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
def test_modes_are_kept(tree: CheckoutTree, mode: int) -> None:
    (tree.package / MIRROR).chmod(mode)
    apply(tree)
    assert (tree.package / MIRROR).stat().st_mode & 0o777 == mode
    revert_patches(tree)
    assert (tree.package / MIRROR).stat().st_mode & 0o777 == mode


def test_file_in_another_encoding_keeps_it(tree: CheckoutTree) -> None:
    coding, name = b"# coding: latin-1\n", b"name = 'd\xe9j\xe0'\n"
    (tree.package / MIRROR).write_bytes(coding + SOURCES[MIRROR] + name)
    before = everything(tree.root)
    apply(tree)
    assert tree.read(MIRROR) == coding + APPLIED[MIRROR] + name
    revert_patches(tree)
    assert everything(tree.root) == before


def test_file_that_is_not_in_its_encoding_is_refused(tree: CheckoutTree) -> None:
    (tree.package / MIRROR).write_bytes(SOURCES[MIRROR] + b"name = 'd\xe9j\xe0'\n")
    refused(tree, "mirror.py: neither UTF-8 nor .*: save it as UTF-8, without a coding line, and try again")


def test_owner_is_kept_where_that_is_allowed(tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def chown(handle: int, user: int, group: int) -> None:
        given.append((user, group))
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", chown)
    owner = (tree.package / MIRROR).stat()
    apply(tree)
    assert given == [(owner.st_uid, owner.st_gid)] * 3
    assert contents(tree) == APPLIED


def test_hard_link_in_a_package_cache_keeps_its_bytes(tree: CheckoutTree, tmp_path: Path) -> None:
    os.link(tree.package / MIRROR, tmp_path / "cached.py")
    apply(tree)
    assert (tmp_path / "cached.py").read_bytes() == SOURCES[MIRROR]


def test_link_inside_the_tree_stays_a_link(tree: CheckoutTree) -> None:
    (tree.package / MIRROR).rename(tree.package / "srt/real.py")
    (tree.package / MIRROR).symlink_to("../real.py")
    apply(tree)
    assert os.readlink(tree.package / MIRROR) == "../real.py"
    assert (tree.package / "srt/real.py").read_bytes() == APPLIED[MIRROR]
    revert_patches(tree)
    assert os.readlink(tree.package / MIRROR) == "../real.py"
    assert (tree.package / "srt/real.py").read_bytes() == SOURCES[MIRROR]


def test_target_linked_out_of_the_tree_is_refused(tree: CheckoutTree, tmp_path: Path) -> None:
    (tree.package / MIRROR).rename(tmp_path / "outside.py")
    (tree.package / MIRROR).symlink_to(tmp_path / "outside.py")
    refused(tree, "is a link out of the tree")
    assert (tmp_path / "outside.py").read_bytes() == SOURCES[MIRROR]


def test_folder_linked_out_of_the_tree_is_refused(tree: CheckoutTree, tmp_path: Path) -> None:
    (tree.package / "srt/managers").rename(tmp_path / "outside")
    (tree.package / "srt/managers").symlink_to(tmp_path / "outside")
    refused(tree, "is a link out of the tree")


def test_two_names_of_one_file_are_refused(tree: CheckoutTree) -> None:
    (tree.package / ABRUPT).unlink()
    (tree.package / ABRUPT).symlink_to("../managers/mirror.py")
    both = [
        rewriting(name, file, "depth = 1", "depth = 2") for name, file in (("one", MIRROR), ("two", ABRUPT))
    ]
    refused(tree, "are the same file", toy("twice", *both))


def test_read_only_file_is_refused(tree: CheckoutTree) -> None:
    (tree.package / CRLF).chmod(0o444)
    refused(tree, r"crlf.py is read-only")


@pytest.mark.parametrize("folder", ["srt/managers", "."])
def test_read_only_folder_is_refused(tree: CheckoutTree, folder: str) -> None:
    (tree.package / folder).chmod(0o555)
    try:
        refused(tree, "is read-only")
    finally:
        (tree.package / folder).chmod(0o755)


def test_permission_denied_is_one_sentence(tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "mkdir", denied)
    refused(tree, r"Permission denied")


def test_file_changed_since_the_plan_is_refused(tree: CheckoutTree) -> None:
    plan = make_plan(tree, TOYS)
    edit(tree, MIRROR, b"depth", b"width")
    before = everything(tree.root)
    with pytest.raises(TreeError, match="was changed while patchkit was running"):
        Transaction(tree).commit(plan)
    assert everything(tree.root) == before


def test_file_deleted_since_the_plan_is_refused(tree: CheckoutTree) -> None:
    plan = make_plan(tree, TOYS)
    (tree.package / MIRROR).unlink()
    with pytest.raises(TreeError, match=r"mirror.py cannot be read"):
        Transaction(tree).commit(plan)


def test_second_patchkit_at_the_same_moment_is_refused(tree: CheckoutTree) -> None:
    apply(tree, COPIES)
    with exclusive(tree.package):
        refused(tree, rf"another patchkit \(process {os.getpid()} on .*\) is writing")
        with pytest.raises(TreeError, match="another patchkit"):
            revert_patches(tree)
    apply(tree)


def test_damaged_record_is_refused(tree: CheckoutTree) -> None:
    apply(tree, COPIES)
    (tree.package / ".patchkit/patchkit.lock/copies.toml").write_text("{")
    refused(tree, "is damaged")
    with pytest.raises(TreeError, match="is damaged"):
        revert_patches(tree)


def test_clean_checkout_shows_only_the_targets_as_changed(checkout: CheckoutTree) -> None:
    apply(checkout)
    assert git(checkout.root, "diff", "--name-only").split() == sorted(
        f"python/sglang/{file}" for file in APPLIED
    )
    assert git(checkout.root, "ls-files", "--others", "--exclude-standard").split() == [
        f"patchkit.lock/{name}.toml" for name in recorded(checkout)
    ]


@pytest.mark.parametrize("staged", [False, True])
def test_uncommitted_change_in_a_target_is_refused(checkout: CheckoutTree, staged: bool) -> None:
    edit(checkout, MIRROR, b"return", b"return 1 +")
    if staged:
        git(checkout.root, "add", ".")
    refused(checkout, rf"^{MIRROR}: uncommitted changes")
    apply(checkout, allow_dirty=True)
    assert b"return 1 + self.copies" in (checkout.read(MIRROR) or b"")


def test_untracked_target_of_a_tracked_tree_is_refused(checkout: CheckoutTree) -> None:
    git(checkout.root, "rm", "-q", "--cached", f"python/sglang/{MIRROR}")
    git(checkout.root, "commit", "-qm", "Forget the mirror")
    refused(checkout, "uncommitted changes")


def test_uncommitted_change_elsewhere_is_no_obstacle(checkout: CheckoutTree) -> None:
    (checkout.package / "version.py").write_text("x = 1\n")
    assert apply(checkout)


def test_what_patchkit_itself_left_uncommitted_is_no_obstacle(checkout: CheckoutTree) -> None:
    apply(checkout, COPIES)
    assert apply(checkout)
    edit(checkout, MIRROR, b"height = 3", b"height = 4")
    with pytest.raises(TreeError, match="uncommitted changes"):
        apply(checkout, toy("host", rewriting("host", f"{MIRROR}::Mirror.host", "return $value", "return 1")))


@pytest.mark.parametrize("ignored", [False, True])
def test_wheel_unpacked_inside_another_repository_is_no_obstacle(tmp_path: Path, ignored: bool) -> None:
    git(tmp_path, "init", "-q", "unrelated")
    if ignored:
        (tmp_path / "unrelated" / ".gitignore").write_text("wheels/\n")
    tree = open_tree(write_package(tmp_path / "unrelated" / "wheels" / "sglang"))
    assert apply(tree)


def test_dirty_file_that_only_matches_the_name_of_a_target_is_no_obstacle(checkout: CheckoutTree) -> None:
    odd = toy("odd", rewriting("x", "srt/[m]*.py", "x = 1", "x = 2"))
    write_package(checkout.package, {"srt/[m]*.py": b"x = 1\n", "srt/m.py": b""})
    git(checkout.root, "add", ".")
    git(checkout.root, "commit", "-qm", "Odd names")
    (checkout.package / "srt/m.py").write_text("dirty\n")
    assert apply(checkout, odd) == ("srt/[m]*.py",)


def test_checkout_that_git_will_not_read_is_refused(
    checkout: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    refused(checkout, r"git cannot read .*dubious ownership.*safe\.directory")
    assert apply(checkout, allow_dirty=True)


def test_folder_that_only_looks_like_a_repository_is_no_obstacle(tree: CheckoutTree) -> None:
    (tree.root / ".git").mkdir()
    assert apply(tree)
