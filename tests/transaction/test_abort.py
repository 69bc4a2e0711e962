"""``apply --abort``: a killed write is rolled back, even if it could be finished."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest
from support.faults import copy_folder, killed, killings
from support.toys import APPLIED, SOURCES, apply, contents, edit, everything, revert_patches, write_package

from patchkit.errors import TreeError
from patchkit.transaction.recover import recover
from patchkit.transaction.revert import recorded
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_of
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

UNTOUCHED = {file: SOURCES[file] for file in APPLIED}


def nothing(tree: CheckoutTree) -> None:
    """What an apply is preceded by."""


@pytest.mark.parametrize(("act", "prepare"), [(apply, nothing), (revert_patches, apply)])
def test_a_write_killed_anywhere_is_taken_back_or_said_to_be_written(
    tree: CheckoutTree, act: Callable[..., object], prepare: Callable[..., object]
) -> None:
    ends = set()
    prepare(tree)
    before, known, was = contents(tree), recorded(tree), everything(tree.package)
    for _ in killings(partial(act, tree), tree.root):
        if not Store(tree.package).pending:
            continue
        halfway = contents(tree)
        try:
            ends.add(recover(tree, roll_back=True).action)
        except TreeError as error:
            ends.add(str(error).rpartition(": ")[2])
            assert halfway == contents(tree) != before
            assert recover(tree).action == "finished"
        else:
            assert (contents(tree), recorded(tree)) == (before, known)
            assert act is revert_patches or everything(tree.package) == was
        assert recover(tree, roll_back=True).action == "nothing"
        assert not list(tree.package.rglob(".*.patchkit"))
    assert ends == {"rolled-back", "an apply with patchkit revert, a revert with patchkit apply."}


def fresh(folder: Path) -> CheckoutTree:
    return open_tree(write_package(folder / "sglang"))


def test_a_killed_revert_can_be_repeated_or_rolled_back(tmp_path: Path, halfway: int) -> None:
    tree = fresh(tmp_path / "again")
    assert killed(partial(apply, tree), halfway)
    for number in killings(partial(recover, tree, roll_back=True), tree.root):
        copy_folder(tree.root, tmp_path / f"turned-{number}")
        recover(tree, roll_back=True)
        assert contents(tree) == UNTOUCHED
        turned = open_tree(tmp_path / f"turned-{number}" / "sglang")
        recover(turned)
        assert contents(turned) in (UNTOUCHED, APPLIED)
    assert number > 10


@pytest.mark.parametrize("size", [None, 2**40], ids=["edited", "huge"])
def test_a_file_that_was_changed_since_keeps_everything_as_it_is(
    tmp_path: Path, halfway: int, size: int | None
) -> None:
    tree = fresh(tmp_path)
    assert killed(partial(apply, tree), halfway)
    file = next(file for file in APPLIED if contents(tree)[file] == APPLIED[file])
    if size is None:
        edit(tree, file, b"class", b"# mine\nclass")
    else:
        os.truncate(tree.package / file, size)

    def state() -> object:
        others = {
            each: (tree.package / each).read_bytes() for each in APPLIED if each != file or size is None
        }
        return others, os.stat(tree.package / file).st_size

    before = state()
    with pytest.raises(TreeError, match="was changed after the write was interrupted"):
        recover(tree, roll_back=True)
    assert state() == before
    assert Store(tree.package).pending


@pytest.mark.parametrize("back", [False, True])
def test_a_write_that_git_overtook_before_it_changed_a_file_ends_with_what_git_wrote(
    tree: CheckoutTree, back: bool
) -> None:
    overtaken = 0
    store = Store(tree.package)
    for _ in killings(partial(apply, tree), tree.root):
        if not store.pending:
            continue
        if list((tree.package / "srt").rglob(".*.patchkit")):
            break
        for file, content in APPLIED.items():
            (tree.package / file).write_bytes(content)
        missing = not all(map(store.has, map(digest_of, APPLIED.values())))
        if missing:
            overtaken += 1
            assert recover(tree, roll_back=back).action == "rolled-back"
            assert contents(tree) == APPLIED
            assert not store.pending
    assert overtaken
