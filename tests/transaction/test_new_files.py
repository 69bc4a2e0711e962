"""Patches that create or delete a file."""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.faults import killings
from support.sweeps import crossed
from support.toys import (
    ABRUPT,
    CRLF,
    MIRROR,
    apply,
    everything,
    new_file_edit,
    planner_of,
    refused,
    rewriting,
    toy,
    with_deletion,
    write_package,
)

from patchkit.errors import ConflictError
from patchkit.plan.build import make_plan
from patchkit.transaction.apply import Transaction
from patchkit.transaction.recover import recover
from patchkit.transaction.revert import recorded, revert
from patchkit.transaction.store import Store
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from pathlib import Path

NEW = "srt/fresh/deep/new.py"
MAKE = toy(
    "make",
    new_file_edit(NEW, "made = 1"),
    rewriting("copies", f"{MIRROR}::Mirror", "copies = 0", "copies = None"),
    rewriting("flag", f"{CRLF}::Backend", "flag = False", "flag = True"),
)


def take(tree: CheckoutTree) -> tuple[str, ...]:
    return Transaction(tree).commit(with_deletion(make_plan(tree, ()), ABRUPT)).files


def make_and_take(tree: CheckoutTree) -> None:
    Transaction(tree).commit(with_deletion(make_plan(tree, (MAKE,)), ABRUPT))


def revert_patches(tree: CheckoutTree) -> object:
    return revert(tree, None, planner_of(tree, (MAKE,)))


def test_made_file_is_there_and_goes_with_its_folders(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    assert NEW in apply(tree, MAKE)
    assert tree.read(NEW) == b"# patchkit make: toy\nmade = 1\n"
    revert_patches(tree)
    assert everything(tree.root) == before


def test_taken_file_comes_back(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    assert take(tree) == (ABRUPT,)
    assert tree.read(ABRUPT) is None
    revert_patches(tree)
    assert everything(tree.root) == before


def test_file_system_without_links_gets_new_files_too(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", denied)
    before = everything(tree.root)
    make_and_take(tree)
    revert_patches(tree)
    assert everything(tree.root) == before


def test_one_of_two_goes_alone(tree: CheckoutTree) -> None:
    make_and_take(tree)
    revert(tree, frozenset({"make"}), planner_of(tree, (MAKE,)))
    assert tree.read(NEW) is None
    assert not (tree.package / "srt/fresh").exists()
    assert tree.read(ABRUPT) is None
    assert recorded(tree) == ("take",)


def test_file_that_is_there_already_is_not_overwritten(tree: CheckoutTree) -> None:
    (tree.package / "srt/fresh/deep").mkdir(parents=True)
    (tree.package / NEW).symlink_to("nowhere")
    refused(tree, r"new\.py already exists", MAKE)


def test_folder_that_leads_out_of_the_tree_gets_no_new_file(tree: CheckoutTree, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tree.package / "srt/fresh").symlink_to(tmp_path / "outside")
    refused(tree, "is a link out of the tree", MAKE)
    assert not list((tmp_path / "outside").iterdir())


def test_what_a_person_put_beside_a_made_file_stays(tree: CheckoutTree) -> None:
    apply(tree, MAKE)
    mine = tree.package / "srt/fresh/mine.py"
    mine.write_text("mine = 1\n")
    revert_patches(tree)
    assert mine.read_text() == "mine = 1\n"
    assert not (tree.package / "srt/fresh/deep").exists()


def test_made_file_that_was_edited_since_is_refused(tree: CheckoutTree) -> None:
    apply(tree, MAKE)
    (tree.package / NEW).write_text("made = 2\n")
    before = everything(tree.root)
    with pytest.raises(ConflictError, match="was edited after"):
        revert_patches(tree)
    assert everything(tree.root) == before


@pytest.mark.parametrize(("act", "torn"), crossed(["apply", "revert"], [False, True], one_in=2))
def test_making_and_taking_killed_anywhere_is_finished_or_rolled_back(
    tree: CheckoutTree, tmp_path: Path, act: str, torn: bool
) -> None:
    old = everything(write_package(tmp_path / "old"))
    done = open_tree(write_package(tmp_path / "done" / "sglang"))
    make_and_take(done)
    new = {name: known for name, known in everything(done.package).items() if ".patchkit" not in name}
    if act == "revert":
        make_and_take(tree)
    done_by = partial(make_and_take if act == "apply" else revert_patches, tree)
    for _ in killings(done_by, tree.root, torn=torn):
        recover(tree)
        assert not Store(tree.package).pending
        left = {name: known for name, known in everything(tree.package).items() if ".patchkit" not in name}
        assert left in (old, new)
        assert recorded(tree) == (("make", "take") if left == new else ())


def test_made_file_with_other_line_ends_goes(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    Transaction(tree).commit(make_plan(tree, (MAKE,)))
    made = tree.package / NEW
    made.write_bytes(made.read_bytes().replace(b"\n", b"\r\n"))
    revert_patches(tree)
    assert everything(tree.root) == before
