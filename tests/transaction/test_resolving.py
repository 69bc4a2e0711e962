"""Markers and resolutions are written completely or not at all, wherever a write is killed."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.faults import killings
from support.toys import ABRUPT, MIRROR, SOURCES, add_patch, attribute, everything, rewriting, write_package

from patchkit import api
from patchkit.errors import ConflictError, TreeError
from patchkit.patchset import load
from patchkit.transaction.recover import recover
from patchkit.transaction.resolve import manual_edits
from patchkit.transaction.revert import RevertResult, recorded
from patchkit.transaction.store import Store
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

DONE = b"        return self.copies.cpu() if self.sure else None\n"
NOTE = b"# patchkit t-copy: by hand: copy"


@pytest.fixture
def patches(patch_folder: Path) -> PatchSet:
    """The toys, and one with an edit that fits and one for which there is no site."""
    copy = rewriting(
        "copy",
        f"{MIRROR}::Mirror.host",
        "return self.copies.cpu()",
        "return self.copies.cpu() if self.sure else None",
    )
    add_patch(patch_folder, "t-copy", attribute(MIRROR, "Mirror", "sure = True"), copy)
    return load.patches()


def mark(tree: CheckoutTree, patches: PatchSet) -> object:
    return api.apply(tree, patches, markers=True)


def finish(tree: CheckoutTree) -> None:
    path = tree.package / MIRROR
    head, _, rest = path.read_bytes().partition(b"<<<<<<<")
    tail = rest.partition(b">>>>>>>")[2].partition(b"\n")[2]
    path.write_bytes(head + DONE + tail)


def resolve(tree: CheckoutTree, patches: PatchSet) -> object:
    return api.resolve(tree, patches, "t-copy", "copy")


def resolutions() -> Path:
    """Return the folder to which a resolution is written beside the tree."""
    return Path(os.environ["XDG_DATA_HOME"])


def source(tree: CheckoutTree) -> dict[str, bytes]:
    return {file: (tree.package / file).read_bytes() for file in SOURCES}


def test_markers_killed_anywhere_are_complete_or_absent(
    tree: CheckoutTree, tmp_path: Path, patches: PatchSet
) -> None:
    as_new = everything(write_package(tmp_path / "as new"))
    whole = open_tree(write_package(tmp_path / "whole" / "sglang"))
    mark(whole, patches)
    seen = set()
    for _ in killings(partial(mark, tree, patches), tree.root, resolutions()):
        if Store(tree.package).pending:
            for act in (api.status, api.apply, api.revert, resolve):
                with pytest.raises(TreeError, match="run patchkit apply --continue"):
                    act(tree, patches)
        recover(tree)
        is_new = source(tree) == source(whole)
        seen.add(is_new)
        assert is_new or source(tree) == SOURCES
        assert bool(recorded(tree)) is is_new
        if is_new:
            with pytest.raises(TreeError, match="conflict markers of t-copy copy"):
                api.apply(tree, patches)
            api.revert(tree, patches)
        assert everything(tree.package) == as_new
    assert seen == {True, False}


def test_resolving_killed_anywhere_is_recorded_or_can_be_done_again(
    tree: CheckoutTree, tmp_path: Path, patches: PatchSet
) -> None:
    as_new = everything(write_package(tmp_path / "as new"))
    mark(tree, patches)
    finish(tree)
    before = source(tree)
    noted = before | {MIRROR: before[MIRROR].replace(DONE, b"        " + NOTE + b"\n" + DONE)}
    for _ in killings(partial(resolve, tree, patches), tree.root, resolutions()):
        recover(tree)
        assert source(tree) in (before, noted), "nothing but the comment comes"
        resolve(tree, patches)
        assert source(tree) == noted
        assert manual_edits(tree) == {("t-copy", "copy")}
        api.revert(tree, patches)
        assert everything(tree.package) == as_new


def test_a_resolution_that_is_not_recorded_is_not_reverted(tmp_path: Path, patches: PatchSet) -> None:
    tree = open_tree(write_package(tmp_path / "sglang"))
    mark(tree, patches)
    finish(tree)
    before = everything(tree.root)
    with pytest.raises(ConflictError, match="run patchkit resolve t-copy copy"):
        api.revert(tree, patches)
    assert everything(tree.root) == before


OWN = b"        return self.copies.own()\n"


def accept(tree: CheckoutTree, patches: PatchSet) -> object:
    return api.resolve(tree, patches, "t-copy", "copy", accept=True)


def give_up(tree: CheckoutTree, patches: PatchSet) -> object:
    return api.give_up(tree, patches, "t-copy", "copy")


@pytest.mark.parametrize(("act", "line"), [(accept, OWN), (give_up, b"")])
def test_a_word_or_giving_up_killed_anywhere_is_there_whole_or_can_be_done_again(
    tree: CheckoutTree,
    tmp_path: Path,
    patches: PatchSet,
    act: Callable[[CheckoutTree, PatchSet], object],
    line: bytes,
) -> None:
    def prepare(tree: CheckoutTree) -> None:
        mark(tree, patches)
        if line:
            path = tree.package / MIRROR
            head, _, rest = path.read_bytes().partition(b"<<<<<<<")
            path.write_bytes(head + line + rest.partition(b">>>>>>>")[2].partition(b"\n")[2])

    as_new = everything(write_package(tmp_path / "as new"))
    whole = open_tree(write_package(tmp_path / "whole" / "sglang"))
    prepare(whole)
    prepare(tree)
    began = source(whole)
    act(whole, patches)
    seen = set()
    for _ in killings(partial(act, tree, patches), tree.root, resolutions()):
        recover(tree)
        is_new = source(tree) == source(whole)
        seen.add(is_new)
        assert is_new or source(tree) == began
        if not is_new:
            act(tree, patches)
            assert source(tree) == source(whole)
        api.revert(tree, patches)
        assert everything(tree.package) == as_new
    assert seen == {True, False}


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_comment_without_a_site_is_at_the_end_of_the_file(
    tmp_path: Path, patches: PatchSet, end: bytes
) -> None:
    tree = open_tree(write_package(tmp_path / "sglang"))
    (tree.package / MIRROR).write_bytes(b"depth = 1" + end)
    before = everything(tree.package)
    accept(tree, patches)
    assert (tree.package / MIRROR).read_bytes() == (b"depth = 1\n# patchkit t-copy: accepted by hand: copy\n")
    api.revert(tree, patches)
    assert everything(tree.package) == before


def test_revert_that_keeps_going_leaves_what_is_in_the_file_of_a_half_finished_conflict(
    tmp_path: Path, patches: PatchSet
) -> None:
    tree = open_tree(write_package(tmp_path / "sglang"))
    mark(tree, patches)
    finish(tree)
    done = api.revert_what_can_be(tree, patches)
    assert set(done.not_reverted) == {"t-copy", "t-flag", "t-guard"}
    assert "run patchkit resolve t-copy copy" in str(done.not_reverted["t-copy"])
    assert done.reverted == RevertResult(("t-stop",), (ABRUPT,))
    resolve(tree, patches)
    api.revert(tree, patches)
    assert source(tree) == SOURCES
