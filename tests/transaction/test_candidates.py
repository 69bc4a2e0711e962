"""The records that can describe a tree, and what of its patches and ports its comments and git's history say."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from support.toys import ABRUPT, COPIES, CRLF, DEPTH, MIRROR, SOURCES, apply, edit, git, planner_of

from patchkit.errors import ConflictError
from patchkit.plan.record import AppliedFile, AppliedPatch, Record, files_of
from patchkit.plan.status import EditStatus, State
from patchkit.transaction.candidates import Candidates, patch_base
from patchkit.transaction.ports import trailer
from patchkit.transaction.resolve import Note, record_manual_edit
from patchkit.transaction.swap import digest_of
from patchkit.transaction.write import record_path
from patchkit.tree.tree import ReadTree, open_tree

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def recorded(tree: CheckoutTree, *ports: tuple[str, bytes, bytes]) -> CheckoutTree:
    """Return a tree whose record has these ports of one file."""
    known = Record()
    for name, before, after in ports:
        change = {MIRROR: AppliedFile(digest_of(before), digest_of(after), (name,))}
        known = known.with_applied(change, [AppliedPatch(name, (), ())], ported=True)
    folder = record_path(tree)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files_of(known).items():
        (folder / name).write_bytes(text)
    return open_tree(tree.root)


def found(tree: CheckoutTree) -> tuple[set[str], set[str]]:
    """Return the patches in the code, and those of the first record that can describe it."""
    candidates = Candidates(tree, planner_of(tree))
    first = next(iter(candidates), None)
    return {*candidates.in_code}, set() if first is None else {*first.record.patches}


def test_a_port_of_which_git_lacks_a_content_is_not_in_the_record_that_a_revert_uses(
    checkout: CheckoutTree,
) -> None:
    text = SOURCES[MIRROR]
    made = b"made = 1\n" + text
    (checkout.package / MIRROR).write_bytes(made + b"own = 1\n")
    git(checkout.root, "hash-object", "-w", str(checkout.package / MIRROR))
    tree = recorded(checkout, ("7", text, made + b"own = 1\n"))
    assert found(tree) == ({"7"}, {"7"})
    assert Candidates(tree, planner_of(tree)).originals == {MIRROR: text}
    tree = recorded(checkout, ("7", b"lost = 1\n", made + b"own = 1\n"))
    assert found(tree)[0] == set()


def test_without_git_nobody_else_has_a_content(tree: CheckoutTree) -> None:
    text = SOURCES[MIRROR] + b"own = 1\n"
    (tree.package / MIRROR).write_bytes(text)
    assert found(recorded(tree, ("7", b"lost = 1\n", text))) == ({"7"}, {"7"})


PATCHED = {MIRROR: {"copies", "depth"}, CRLF: {"copies"}, ABRUPT: {"depth"}}
BEFORE = {file: SOURCES[file] for file in PATCHED}


def forget(tree: CheckoutTree) -> CheckoutTree:
    """Remove a tree's record."""
    shutil.rmtree(record_path(tree))
    return open_tree(tree.root)


def tidy(tree: CheckoutTree, file: str, name: bytes) -> None:
    """Remove a patch's comments from a file."""
    lines = (tree.package / file).read_bytes().splitlines(keepends=True)
    (tree.package / file).write_bytes(b"".join(each for each in lines if b"patchkit %s:" % name not in each))


@pytest.mark.parametrize("has_record", [True, False])
def test_what_the_comments_the_record_and_history_say_of_a_patched_checkout(
    checkout: CheckoutTree, has_record: bool
) -> None:
    apply(checkout, COPIES, DEPTH)
    applied = {file: checkout.read(file) for file in PATCHED}
    git(checkout.root, "add", "-A")
    git(checkout.root, *AUTHOR, "commit", "-qm", "Patched")
    tree = open_tree(checkout.root) if has_record else forget(checkout)
    found = Candidates(tree, planner_of(tree))
    assert found.traces == PATCHED
    assert found.traced == found.in_code == {"copies", "depth"}
    assert found.tidied == found.untold == found.ported == frozenset()
    assert found.originals == BEFORE
    assert found.applied == applied
    candidates = list(found)
    assert [each.is_recorded for each in candidates] == ([True, False] if has_record else [False])
    for each in candidates:
        assert each.is_unedited
        assert not each.is_of_ports
        assert {*each.record.patches} == {"copies", "depth"}
        assert each.originals == BEFORE
    (tree.package / MIRROR).write_bytes(b"own = 1\n" + (applied[MIRROR] or b""))
    later = [each.is_unedited for each in Candidates(tree, planner_of(tree))]
    assert later == ([False, True] if has_record else [True])
    base = patch_base(tree, planner_of(tree))
    assert base is None


def test_the_base_of_an_exact_tree_is_its_originals(checkout: CheckoutTree) -> None:
    assert patch_base(checkout, planner_of(checkout)) is None
    apply(checkout, COPIES, DEPTH)
    tree = open_tree(checkout.root)
    base = patch_base(tree, planner_of(tree))
    assert base is not None
    assert (set(base.patches), base.contents) == ({"copies", "depth"}, BEFORE)
    assert base.makers == {(file, name) for file, names in PATCHED.items() for name in names}


@pytest.mark.parametrize("has_record", [True, False])
def test_a_patch_whose_comments_were_removed_is_told_by_the_record_or_by_history(
    checkout: CheckoutTree, has_record: bool
) -> None:
    apply(checkout, COPIES, DEPTH)
    git(checkout.root, "add", "-A")
    git(checkout.root, *AUTHOR, "commit", "-qm", "Patched")
    for file in PATCHED:
        tidy(checkout, file, b"depth")
    tree = open_tree(checkout.root) if has_record else forget(checkout)
    found = Candidates(tree, planner_of(tree))
    assert found.traced == {"copies"}
    assert found.in_code == {"copies", "depth"}
    assert found.tidied == {"depth"}
    assert found.untold == {"depth"}
    assert found.originals == BEFORE


def test_of_an_edit_that_a_person_made_the_original_is_in_history(checkout: CheckoutTree) -> None:
    edit(checkout, MIRROR, b"copies = 0", b"copies = None")
    status = EditStatus("copies", MIRROR, "Mirror", State.UNKNOWN)
    note = Note("# patchkit copies: by hand", 2)
    read = ReadTree(checkout.root, checkout.package)
    record_manual_edit(read, COPIES, status, lambda _file, _text: True, note)
    tree = open_tree(checkout.root)
    assert Candidates(tree, planner_of(tree)).originals[MIRROR] == SOURCES[MIRROR]


def test_a_tree_without_patches_has_no_originals(checkout: CheckoutTree) -> None:
    found = Candidates(checkout, planner_of(checkout))
    assert (found.originals, found.traces, found.in_code, found.tidied) == ({}, {}, frozenset(), frozenset())
    (only,) = found
    assert not only.record.layers
    assert found.of_ports(frozenset({"7"})).record.layers == ()


def test_a_port_that_a_commit_names_is_in_the_code_and_in_history(checkout: CheckoutTree) -> None:
    before, after = SOURCES[MIRROR], SOURCES[MIRROR] + b"own = 1\n"
    (checkout.package / MIRROR).write_bytes(after)
    message = f"Port\n\n{trailer('7', {MIRROR: (before, after)})}\n"
    git(checkout.root, *AUTHOR, "commit", "-qam", message)
    found = Candidates(checkout, planner_of(checkout))
    assert found.ported == found.committed_ports(frozenset({"7", "8"})) == {"7"}
    assert found.ports_in_code() == {"7": True}
    assert found.of_ports(frozenset({"7"})).originals == {MIRROR: before}


def test_without_git_and_a_record_no_code_from_before_is_known(tree: CheckoutTree) -> None:
    apply(tree, COPIES)
    found = Candidates(forget(tree), planner_of(tree))
    assert found.in_code == found.traced == {"copies"}
    with pytest.raises(
        ConflictError, match=r"no record and no git history has the unpatched files of .*: run pip"
    ):
        list(found)
    with pytest.raises(ConflictError, match="no record and no git history"):
        _ = found.originals
