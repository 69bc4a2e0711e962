"""What other people and other processes do while patchkit writes is not lost."""

from __future__ import annotations

import fcntl
import functools
import multiprocessing
import os
from typing import TYPE_CHECKING, Any

import pytest
from support.faults import Faults, copy_folder, killed, killings, telling
from support.sweeps import crossed
from support.toys import (
    APPLIED,
    DEPTH,
    MIRROR,
    SOURCES,
    apply,
    contents,
    everything,
    revert_patches,
    write_package,
)

from patchkit.errors import PatchkitError, TreeError, UnfinishedError
from patchkit.plan import record
from patchkit.transaction import folder
from patchkit.transaction import revert as reverting
from patchkit.transaction.candidates import Candidates
from patchkit.transaction.recover import recover
from patchkit.transaction.revert import RevertResult, recorded
from patchkit.transaction.store import LOCK, Store
from patchkit.transaction.write import locked
from patchkit.tree.fork import FOLDER, OWN_FOLDER, RECORD, DiskFork
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.plan.record import Record
    from patchkit.tree.tree import CheckoutTree

MINE = b"class Mirror:\n    mine = 1\n"


def save_in_place(path: Path) -> None:
    path.write_bytes(MINE)


def save_by_renaming(path: Path) -> None:
    path.with_name("mine.tmp").write_bytes(MINE)
    os.replace(path.with_name("mine.tmp"), path)


def saving(
    save: Callable[[Path], None], number: int, path: Path
) -> Callable[[int, str, tuple[Any, ...]], None]:
    """Save a file of one's own just before the call with this number."""

    def instead(at: int, name: str, arguments: tuple[Any, ...]) -> None:
        if at == number:
            save(path)

    return instead


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "_renameat2", lambda: None)


@pytest.mark.parametrize(
    ("save", "act"), crossed([save_in_place, save_by_renaming], [apply, revert_patches], one_in=2)
)
def test_save_at_any_moment_is_kept(
    tmp_path: Path, save: Callable[[Path], None], act: Callable[[CheckoutTree], object]
) -> None:
    """Saved before any system call of an act: the save stands there, or the act had ended with the file."""
    refusals = 0
    first = open_tree(write_package(tmp_path / "first" / "sglang"))
    if act is revert_patches:
        apply(first)
    before = contents(first)
    copy_folder(first.root, tmp_path / "told")
    for number in telling(functools.partial(act, open_tree(tmp_path / "told" / "sglang"))):
        copy_folder(first.root, tmp_path / str(number))
        tree = open_tree(tmp_path / str(number) / "sglang")
        target = tree.package / MIRROR
        with Faults(saving(save, number, target)).on() as faults:
            try:
                act(tree)
            except PatchkitError:
                refusals += 1
                if Store(tree.package).pending:
                    with pytest.raises(TreeError, match="mirror"):
                        recover(tree)
                else:
                    assert contents(tree) == before | {MIRROR: MINE}
        assert target.read_bytes() == MINE or faults.count < number
    assert faults.count < number
    assert refusals > 10


def test_save_before_the_last_step_is_kept_where_names_cannot_be_exchanged(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    assert apply(tree)
    assert contents(tree) == APPLIED
    revert_patches(tree)

    def save(number: int, name: str, arguments: Any) -> None:
        if name == "write" and b"height = 3" in bytes(arguments[1]):
            save_in_place(tree.package / MIRROR)

    with Faults(save).on(), pytest.raises(TreeError, match="was changed while patchkit was running"):
        apply(tree)
    assert contents(tree) == {file: SOURCES[file] for file in APPLIED} | {MIRROR: MINE}


def test_interruption_where_names_cannot_be_exchanged_is_recovered(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    for _ in killings(functools.partial(apply, tree), tree.root):
        recover(tree)
        assert contents(tree) in (APPLIED, {file: SOURCES[file] for file in APPLIED})


@pytest.mark.parametrize("at", ["create", "exchange"])
def test_folder_swapped_for_a_link_leads_nothing_out_of_the_tree(
    tree: CheckoutTree, tmp_path: Path, at: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mirror.py").write_bytes(MINE)
    managers = tree.package / "srt" / "managers"
    done: list[bool] = []

    def swap(number: int, name: str, arguments: Any) -> None:
        staging = name == "open" and ".mirror.py.patchkit" in str(arguments[0])
        if not done and (staging if at == "create" else name == "exchange"):
            done.append(True)
            managers.rename(tree.package / "srt" / "moved")
            managers.symlink_to(outside)

    before = everything(outside)
    with Faults(swap).on(), pytest.raises((TreeError, UnfinishedError)):
        apply(tree)
    assert done
    assert everything(outside) == before


def test_save_while_a_recovery_is_at_work_is_kept(tmp_path: Path) -> None:
    interrupted = open_tree(write_package(tmp_path / "interrupted" / "sglang"))
    assert killed(functools.partial(apply, interrupted), 60)
    for number in range(1, 1000):
        copy_folder(interrupted.root, tmp_path / str(number))
        tree = open_tree(tmp_path / str(number) / "sglang")
        with Faults(saving(save_in_place, number, tree.package / MIRROR)).on() as faults:
            try:
                recover(tree)
            except PatchkitError:
                assert (tree.package / MIRROR).read_bytes() == MINE
        if faults.count < number:
            break
        assert (tree.package / MIRROR).read_bytes() == MINE
    assert number > 10


def test_apply_before_any_step_of_a_revert_is_kept_out_or_keeps_its_ledger(tmp_path: Path) -> None:
    """The lock goes last: nobody's ledger is removed with what a revert leaves."""
    ends: set[str] = set()
    first = open_tree(write_package(tmp_path / "first" / "sglang"))
    apply(first)
    for number in range(1, 1000):
        copy_folder(first.root, tmp_path / str(number))
        tree = open_tree(tmp_path / str(number) / "sglang")
        with Faults(applying(number, tree, ends)).on() as faults:
            revert_patches(tree)
        if faults.count < number:
            break
        there = b"# patchkit depth:" in (tree.read(MIRROR) or b"")
        assert there == ("depth" in recorded(tree))
        revert_patches(tree)
        assert contents(tree) == {file: SOURCES[file] for file in APPLIED}
    assert number > 10
    assert ends == {"applied", "refused"}


def applying(number: int, tree: CheckoutTree, ends: set[str]) -> Callable[[int, str, tuple[Any, ...]], None]:
    """Apply a patch, as another process would, just before the call with this number."""

    def instead(at: int, name: str, arguments: tuple[Any, ...]) -> None:
        if at == number:
            try:
                apply(tree, DEPTH)
                ends.add("applied")
            except TreeError:
                ends.add("refused")

    return instead


def test_revert_of_what_another_patchkit_applies_and_reverts_meanwhile_finds_nothing(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees the code and, with the ledger before and after the same, no original content."""
    traces: Callable[[Candidates], dict[str, frozenset[str]]] = vars(Candidates)["traces"].func
    steps: list[Callable[[CheckoutTree], object]] = [revert_patches, apply]

    def meanwhile(candidates: Candidates) -> dict[str, frozenset[str]]:
        if not steps:
            return traces(candidates)
        first, last = steps.pop(), steps.pop()
        first(tree)
        found = traces(candidates)
        last(tree)
        return found

    before = everything(tree.root)
    monkeypatch.setattr(Candidates, "traces", property(meanwhile))
    assert revert_patches(tree) == RevertResult((), ())
    assert steps == []
    assert everything(tree.root) == before


REFUSALS = ("another patchkit", "is running or was interrupted", "while patchkit was running")


def by_turns(root: Path) -> None:
    """Apply and take back, and be told why where that cannot be done now."""
    tree = open_tree(root)
    for act in (apply, revert_patches) * 5:
        try:
            act(tree)
        except TreeError as error:
            if not any(each in str(error) for each in REFUSALS):
                raise


def test_twenty_at_once_each_succeed_or_are_told_by_whom_it_is_locked(tree: CheckoutTree) -> None:
    before = everything(tree.root)
    forking = multiprocessing.get_context("fork")
    running = [forking.Process(target=by_turns, args=(tree.root,)) for _ in range(20)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * 20
    assert contents(tree) in (APPLIED, {file: SOURCES[file] for file in APPLIED})
    apply(tree)
    revert_patches(tree)
    assert everything(tree.root) == before


def test_the_record_of_a_tree_is_read_where_no_other_patchkit_can_take_it_away(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, holds = record.read, list[bool]()

    def reading(read_tree: CheckoutTree) -> Record:
        with (tree.package / OWN_FOLDER / LOCK).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holds.append(True)
        return read(read_tree)

    apply(tree)
    monkeypatch.setattr(record, "read", reading)
    with locked(tree):
        pass
    assert holds == [True, True]


def test_a_record_that_another_patchkit_takes_away_while_it_is_looked_for_is_none(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, steps = DiskFork.kind, [revert_patches]

    def meanwhile(fork: DiskFork, name: str) -> str:
        found = kind(fork, name)
        if found == FOLDER and name.endswith(RECORD) and steps:
            steps.pop()(tree)
        return found

    apply(tree)
    monkeypatch.setattr(DiskFork, "kind", meanwhile)
    assert open_tree(tree.root).record() == {}
    assert steps == []


def test_a_save_between_the_plan_of_a_revert_and_its_lock_is_planned_anew(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_a_save(*arguments: Any) -> Any:
        path = tree.package / MIRROR
        path.write_bytes(path.read_bytes() + b"\nmine = 1\n")
        return locked(*arguments)

    apply(tree)
    monkeypatch.setattr(reverting, "locked", after_a_save)
    assert revert_patches(tree).patches
    assert contents(tree)[MIRROR] == SOURCES[MIRROR] + b"\nmine = 1\n"
