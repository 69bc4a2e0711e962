from __future__ import annotations

import errno
import os
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.toys import (
    APPLIED,
    CRLF,
    MIRROR,
    SOURCES,
    TOYS,
    apply,
    contents,
    edit,
    everything,
    refused,
    take_back,
    write_package,
)

from patchkit.errors import TreeError
from patchkit.transaction.recover import Recovery, recover
from patchkit.transaction.revert import recorded
from patchkit.transaction.store import Store, digest_of
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Writes:
    """Counts what reaches the disk, and may do something else instead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, instead: Callable[[int, str, str], None]) -> None:
        self.count = 0
        self.instead = instead
        for owner, name in ((Path, "open"), (os, "fsync"), (os, "replace"), (os, "unlink"), (os, "mkdir")):
            monkeypatch.setattr(owner, name, self._counting(name, getattr(owner, name)))

    def _counting(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **keys: object) -> object:
            if name != "open" or "x" in str(arguments[1:]):
                self.count += 1
                self.instead(self.count, name, str(arguments[0]))
            return function(*arguments, **keys)

        return counted


def trees(folder: Path, prepare: Callable[[CheckoutTree], object]) -> Iterator[tuple[int, CheckoutTree]]:
    """Yield 1, 2, 3, ... each with a tree of its own."""
    for number in count(1):
        tree = open_tree(write_package(folder / str(number) / "sglang"))
        prepare(tree)
        yield number, tree


def nothing(tree: CheckoutTree) -> None:
    """Apply and revert are tried on trees that this, or an apply, was done to before."""


@pytest.mark.parametrize("stays_full", [False, True])
@pytest.mark.parametrize(("act", "prepare"), [(apply, nothing), (take_back, apply)])
def test_full_disk_changes_nothing(
    tmp_path: Path, act: Callable[..., object], prepare: Callable[..., object], stays_full: bool
) -> None:
    for number, tree in trees(tmp_path, prepare):

        def run_full(at: int, name: str, path: str, number: int = number) -> None:
            # A disk that stays full takes no new content, while renames and removals go through.
            fails = name in {"open", "mkdir"} if stays_full else name != "unlink"
            if fails and (at >= number if stays_full else at == number):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        before = everything(tree.root)
        with pytest.MonkeyPatch.context() as monkeypatch:
            writes = Writes(monkeypatch, run_full)
            try:
                act(tree)
                unchanged = False
            except TreeError as error:
                message, unchanged = str(error), True
        assert (everything(tree.root) == before) is unchanged
        assert not unchanged or "No space left on device" in message
        if writes.count < number:
            break
    assert number > 30


def killed(act: Callable[[CheckoutTree], object], tree: CheckoutTree, number: int) -> bool:
    """Do ``act`` in a process that is killed as it reaches the disk; False if it ended before that."""
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as monkeypatch:
                Writes(monkeypatch, lambda at, name, path: os._exit(9) if at == number else None)
                act(tree)
            os._exit(0)
        except BaseException:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


@pytest.mark.parametrize(
    ("act", "prepare", "ends"),
    [
        (apply, nothing, {"nothing", "finished", "rolled-back"}),
        # Everything that taking back takes is on disk from the start.
        (take_back, apply, {"nothing", "finished"}),
    ],
)
def test_write_killed_anywhere_is_finished_or_rolled_back(
    tmp_path: Path, act: Callable[..., object], prepare: Callable[..., object], ends: set[str]
) -> None:
    outcomes = set()
    for number, tree in trees(tmp_path, prepare):
        old = contents(tree), recorded(tree)
        new = (
            (APPLIED, tuple(patch.id for patch in TOYS))
            if act is apply
            else ({f: SOURCES[f] for f in APPLIED}, ())
        )
        if not killed(act, tree, number):
            break
        if Store(tree.package).pending:
            refused(tree, "run patchkit recover")
        outcomes.add(recover(tree).action)
        assert (contents(tree), recorded(tree)) in (old, new)
        assert recover(tree) == Recovery("nothing")
        assert not list(tree.package.rglob(".*.patchkit"))
        act(tree)
        take_back(tree)
        assert everything(tree.package) == everything(write_package(tmp_path / "as new"))
    assert outcomes == ends


def test_recovery_killed_anywhere_can_be_done_again(tmp_path: Path) -> None:
    halfway = next(
        number
        for number, tree in trees(tmp_path / "counting", nothing)
        if killed(apply, tree, number) and contents(tree) != {file: SOURCES[file] for file in APPLIED}
    )
    for number, tree in trees(tmp_path / "again", lambda tree: killed(apply, tree, halfway)):
        assert contents(tree) != APPLIED
        ended = not killed(recover, tree, number)
        if not ended:
            recover(tree)
        assert (contents(tree), recorded(tree)) == (APPLIED, tuple(patch.id for patch in TOYS))
        take_back(tree)
        assert everything(tree.package) == everything(write_package(tmp_path / "as new"))
        if ended:
            break
    assert number > 10


def interrupted(tmp_path: Path) -> CheckoutTree:
    """Return a tree in which some of the files of an apply are written."""
    untouched = {file: SOURCES[file] for file in APPLIED}
    for number, tree in trees(tmp_path, nothing):
        assert killed(apply, tree, number)
        if contents(tree) != untouched:
            return tree
    raise AssertionError


def test_file_edited_after_an_interrupted_write_is_refused_by_name(tmp_path: Path) -> None:
    tree = interrupted(tmp_path)
    edit(tree, MIRROR, b"class", b"# mine\nclass")
    before = everything(tree.package)
    with pytest.raises(TreeError, match=rf"{MIRROR} was changed after the write was interrupted"):
        recover(tree)
    assert everything(tree.package) == before


def test_what_recover_asks_for_lets_it_finish(tmp_path: Path) -> None:
    tree = interrupted(tmp_path)
    edit(tree, MIRROR, b"class", b"# mine\nclass")
    with pytest.raises(TreeError) as caught:
        recover(tree)
    kept = Path(str(caught.value).partition("copy ")[2].partition(" in its place")[0])
    (tree.package / MIRROR).write_bytes(kept.read_bytes())
    assert recover(tree).action == "finished"
    assert contents(tree) == APPLIED


def test_write_that_can_no_longer_be_finished_is_rolled_back(tmp_path: Path) -> None:
    for number, tree in trees(tmp_path, nothing):
        before = contents(tree)
        assert killed(apply, tree, number)
        if len(list((tree.package / "srt").rglob(".*.patchkit"))) == len(APPLIED):
            break
    assert contents(tree) == before
    Store(tree.package).path(digest_of(APPLIED[MIRROR])).unlink()
    assert recover(tree) == Recovery("rolled-back", tuple(APPLIED))
    assert everything(tree.package) == everything(write_package(tmp_path / "as new"))


def test_interrupted_write_whose_contents_are_lost_is_refused(tmp_path: Path) -> None:
    tree = interrupted(tmp_path)
    for path in (tree.package / ".patchkit" / "objects").iterdir():
        path.write_bytes(b"")
    with pytest.raises(TreeError, match="is damaged"):
        recover(tree)


def test_nothing_to_recover_leaves_no_trace(tree: CheckoutTree) -> None:
    before = everything(tree.package)
    assert recover(tree) == Recovery("nothing")
    assert everything(tree.package) == before


def test_interruption_from_the_keyboard_changes_nothing(tmp_path: Path) -> None:
    def interrupt(at: int, name: str, path: str) -> None:
        if name == "replace" and path.endswith(f".{Path(CRLF).name}.patchkit"):
            raise KeyboardInterrupt

    tree = open_tree(write_package(tmp_path / "sglang"))
    before = everything(tree.package)
    with pytest.MonkeyPatch.context() as monkeypatch:
        Writes(monkeypatch, interrupt)
        with pytest.raises(KeyboardInterrupt):
            apply(tree)
    assert everything(tree.package) == before


def test_content_is_on_disk_before_it_is_put_in_place(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    placed: list[str] = []
    put = os.replace

    def replace_flushed(source: Path, target: Path) -> None:
        assert source.stat().st_ino in flushed
        placed.append(Path(target).name)
        put(source, target)

    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    monkeypatch.setattr(os, "replace", replace_flushed)
    apply(tree)
    files = [Path(file).name for file in APPLIED]
    assert placed[-4:] == [*files, "ledger.json"]
    assert placed.index("journal.json") < placed.index(digest_of(SOURCES[MIRROR]))
