from __future__ import annotations

import errno
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.faults import Faults, copy_folder, failing, interrupting, killed, killings, telling
from support.sweeps import crossed, swept
from support.toys import (
    APPLIED,
    MIRROR,
    SOURCES,
    TOYS,
    apply,
    contents,
    edit,
    everything,
    refused,
    revert_patches,
    write_package,
)

from patchkit.cli import main
from patchkit.errors import TreeError, UnfinishedError
from patchkit.plan.record import file_of
from patchkit.transaction import folder as folders
from patchkit.transaction.recover import Recovery, recover
from patchkit.transaction.revert import recorded
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_of, staged_name
from patchkit.tree.tree import CheckoutTree, open_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result


def trees(
    folder: Path, prepare: Callable[[CheckoutTree], object], act: Callable[[CheckoutTree], object]
) -> Iterator[tuple[int, CheckoutTree]]:
    """Yield the numbers of the calls of an act, each with a tree of its own."""
    first = open_tree(write_package(folder / "first" / "sglang"))
    prepare(first)
    copy_folder(first.root, folder / "told")
    for number in telling(partial(act, open_tree(folder / "told" / "sglang")), itself=True):
        copy_folder(first.root, folder / str(number))
        yield number, open_tree(folder / str(number) / "sglang")


def nothing(tree: CheckoutTree) -> None:
    """Apply and revert are tried on trees that this, or an apply, was done to before."""


def on_disk(tree: CheckoutTree) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, number of names and bytes of everything, without the process that has the lock and the time."""
    return {
        name: (
            mode,
            (tree.root / name).lstat().st_nlink,
            re.sub(rb"process \d+|\d{4}-\d\d-\d\dT[^\"]+", b"", content),
        )
        for name, (mode, content) in everything(tree.root).items()
    }


@pytest.mark.parametrize("torn", [False, True])
def test_what_a_killed_process_leaves_is_what_was_there_before_its_call(
    tree: CheckoutTree, tmp_path: Path, torn: bool
) -> None:
    for number in killings(partial(apply, tree), tree.root, torn=torn):
        if number % 7 == 0:
            other = open_tree(write_package(tmp_path / str(number) / "sglang"))
            killed(partial(apply, other), number, torn=torn)
            assert on_disk(other) == on_disk(tree)


@pytest.mark.parametrize(
    ("step", "stays_full"),
    crossed([(apply, nothing), (revert_patches, apply)], [False, True], one_in=2),
)
def test_full_disk_changes_nothing(
    tmp_path: Path, step: tuple[Callable[..., object], Callable[..., object]], stays_full: bool
) -> None:
    act, prepare = step
    for number, tree in trees(tmp_path, prepare, act):
        before = everything(tree.root)
        with failing(number, errno.ENOSPC, lasting=stays_full).on() as faults:
            try:
                act(tree)
                unchanged = False
            except TreeError as error:
                message, unchanged = str(error), True
            except UnfinishedError as error:
                message, unchanged = str(error), False
                assert "run patchkit apply --continue" in message
        if Store(tree.package).pending:
            recover(tree)
        assert (everything(tree.root) == before) is unchanged
        assert not unchanged or "No space left on device" in message
    assert faults.count < number
    assert number > 30


@pytest.mark.parametrize(("act", "prepare"), [(apply, nothing), (revert_patches, apply)])
def test_write_killed_anywhere_is_finished_or_rolled_back(
    tree: CheckoutTree,
    tmp_path: Path,
    act: Callable[..., object],
    prepare: Callable[..., object],
) -> None:
    outcomes, usable = set(), []
    as_new = everything(write_package(tmp_path / "as new"))
    prepare(tree)
    old = contents(tree), recorded(tree)
    new = (
        (APPLIED, tuple(patch.id for patch in TOYS))
        if act is apply
        else ({f: SOURCES[f] for f in APPLIED}, ())
    )
    for _ in killings(partial(act, tree), tree.root):
        if Store(tree.package).pending:
            refused(tree, "run patchkit apply --continue")
        outcomes.add(recover(tree).action)
        assert (contents(tree), recorded(tree)) in (old, new)
        assert recover(tree) == Recovery("nothing")
        assert not list(tree.package.rglob(".*.patchkit"))
        # What can be done with the same bytes is the same.
        if (ended := everything(tree.package)) not in usable:
            act(tree)
            revert_patches(tree)
            assert everything(tree.package) == as_new
            usable.append(ended)
    assert outcomes == {"nothing", "finished", "rolled-back"}


def test_recovery_killed_anywhere_can_be_done_again(interrupted: CheckoutTree, tmp_path: Path) -> None:
    as_new = everything(write_package(tmp_path / "as new"))
    assert contents(interrupted) != APPLIED
    for _ in killings(partial(recover, interrupted), interrupted.root):
        recover(interrupted)
        assert (contents(interrupted), recorded(interrupted)) == (APPLIED, tuple(patch.id for patch in TOYS))
        revert_patches(interrupted)
        assert everything(interrupted.package) == as_new


@pytest.fixture
def interrupted(tree: CheckoutTree, halfway: int) -> CheckoutTree:
    """A tree in which some of the files of an apply are written."""
    assert killed(partial(apply, tree), halfway)
    return tree


def test_file_edited_after_an_interrupted_write_is_refused_by_name(interrupted: CheckoutTree) -> None:
    edit(interrupted, MIRROR, b"class", b"# mine\nclass")
    (interrupted.package / ".patchkit" / "lock").unlink()
    before = everything(interrupted.package)
    with pytest.raises(TreeError, match=rf"{MIRROR} was changed after the write was interrupted"):
        recover(interrupted)
    (interrupted.package / ".patchkit" / "lock").unlink()
    assert everything(interrupted.package) == before


def test_what_recover_asks_for_lets_it_finish(interrupted: CheckoutTree) -> None:
    edit(interrupted, MIRROR, b"class", b"# mine\nclass")
    with pytest.raises(TreeError) as caught:
        recover(interrupted)
    kept = Path(str(caught.value).partition("copy ")[2].partition(" to the file")[0])
    (interrupted.package / MIRROR).write_bytes(kept.read_bytes())
    assert recover(interrupted).action == "finished"
    assert contents(interrupted) == APPLIED


def test_write_that_can_no_longer_be_finished_is_rolled_back(tree: CheckoutTree, tmp_path: Path) -> None:
    before = contents(tree)
    for _ in killings(partial(apply, tree), tree.root):
        if len(list((tree.package / "srt").rglob(".*.patchkit"))) == len(APPLIED):
            break
    assert contents(tree) == before
    Store(tree.package).where(digest_of(APPLIED[MIRROR])).unlink()
    assert recover(tree) == Recovery("rolled-back", tuple(APPLIED))
    assert everything(tree.package) == everything(write_package(tmp_path / "as new"))


def test_interrupted_write_whose_contents_are_lost_is_refused(interrupted: CheckoutTree) -> None:
    for path in (interrupted.package / ".patchkit" / "objects").iterdir():
        path.write_bytes(b"")
    for path in (interrupted.package / "srt").rglob(".*.patchkit"):
        path.unlink()
    before = contents(interrupted)
    with pytest.raises(TreeError, match="is damaged"):
        recover(interrupted)
    assert contents(interrupted) == before


def test_contents_kept_beside_the_files_serve_where_the_folder_lost_them(
    interrupted: CheckoutTree, tmp_path: Path
) -> None:
    for path in (interrupted.package / ".patchkit" / "objects").iterdir():
        path.write_bytes(b"")
    assert recover(interrupted).action == "rolled-back"
    assert everything(interrupted.package) == everything(write_package(tmp_path / "as new"))


def test_nothing_to_recover_leaves_no_trace(tree: CheckoutTree) -> None:
    before = everything(tree.package)
    assert recover(tree) == Recovery("nothing")
    assert everything(tree.package) == before


def test_interruption_from_the_keyboard_anywhere_changes_nothing_or_is_recovered(tmp_path: Path) -> None:
    for number, tree in trees(tmp_path, nothing, apply):
        before = everything(tree.package)
        how = None
        with interrupting(number).on():
            try:
                apply(tree)
            except (KeyboardInterrupt, UnfinishedError) as error:
                how = error
        if Store(tree.package).pending:
            assert "run patchkit apply --continue" in str(how)
            recover(tree)
        if contents(tree) != APPLIED:
            assert everything(tree.package) == before
    assert how is None
    assert number > 30


@pytest.mark.usefixtures("patch_folder")
@pytest.mark.parametrize("ending", ["--continue", "--abort"])
def test_an_unfinished_write_has_an_exit_code_of_its_own_and_is_pending_for_other_commands(
    tmp_path: Path, ending: str
) -> None:
    for number, tree in trees(tmp_path, nothing, apply):
        with interrupting(number).on():
            ran = CliRunner().invoke(main, ["apply", str(tree.root)])
        assert (ran.exit_code == 5) is Store(tree.package).pending
        if ran.exit_code == 5:
            break
        assert ran.exit_code == 1  # Click's for an interruption from the keyboard.
        assert contents(tree) == {file: SOURCES[file] for file in APPLIED}
    assert f"run patchkit apply --continue {tree.root}\n" in ran.stderr
    for words in (["status"], ["apply"], ["revert"], ["verify"]):
        assert CliRunner().invoke(main, [*words, str(tree.root)]).exit_code == 4
    ended = CliRunner().invoke(main, ["apply", ending, str(tree.root)])
    # What is written whole can only be continued.
    assert ended.exit_code == (0 if ending == "--continue" else 4)
    assert Store(tree.package).pending is (ending == "--abort")


def test_content_is_on_disk_before_it_is_put_in_place(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    placed: list[str] = []

    def require_flushed(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        if name in {"rename", "exchange", "link"}:
            source, target = arguments[1::2] if name == "exchange" else arguments[:2]
            (path,) = tree.package.rglob(source)
            assert path.stat().st_ino in flushed
            placed.append(target)

    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    with Faults(require_flushed).on():
        apply(tree)
    files = [Path(file).name for file in APPLIED]
    recorded = sorted(file_of(patch.id) for patch in TOYS)
    assert placed[-len(files) - len(recorded) :] == [*files, *recorded]
    assert placed.index("journal.json") < placed.index(digest_of(SOURCES[MIRROR]))


def test_names_are_on_disk_before_what_relies_on_them(
    tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut keeps of each folder what it was when it was flushed last, or anything later."""
    waiting: dict[int, set[str]] = {}
    seen: list[tuple[str, set[str]]] = []

    def changed(folder: int, name: str) -> None:
        asides = {staged_name(name) for names in waiting.values() for name in names}
        mine = {name for names in waiting.values() for name in names}.difference(asides)
        seen.append((name, mine))
        waiting.setdefault(os.fstat(folder).st_ino, set()).add(name)

    def record(module: Any, call: str, where: Callable[..., tuple[int, str]]) -> None:
        real = getattr(module, call)

        def recorded_call(*arguments: Any, **keys: Any) -> Any:
            changed(*where(*arguments, **keys))
            return real(*arguments, **keys)

        monkeypatch.setattr(module, call, recorded_call)

    record(os, "rename", lambda _name, to, *, src_dir_fd, dst_dir_fd: (dst_dir_fd, to))
    record(os, "link", lambda _name, to, *, src_dir_fd, dst_dir_fd, follow_symlinks: (dst_dir_fd, to))
    record(os, "unlink", lambda name, *, dir_fd: (dir_fd, name))
    record(os, "mkdir", lambda name, *, dir_fd: (dir_fd, name))
    record(folders, "exchange", lambda _from, _name, handle, other: (handle, other))
    monkeypatch.setattr(os, "fsync", lambda handle: waiting.pop(os.fstat(handle).st_ino, None))
    apply(tree)
    before = dict(reversed(seen))  # The first time that a name changed.
    files = [Path(file).name for file in APPLIED]
    journal, objects = "journal.json", {digest_of(text) for text in (*SOURCES.values(), *APPLIED.values())}
    assert not before[files[0]] & {journal, "objects", ".patchkit", *objects}
    recorded = {file_of(patch.id) for patch in TOYS}
    assert not before[min(recorded)] & {*files}
    ended = max(index for index, (name, _) in enumerate(seen) if name == journal)
    assert not seen[ended][1] & {*recorded, *files}
    assert not any(journal in unflushed for _, unflushed in seen[ended + 1 :])
    assert not any(journal in names for names in waiting.values())


@pytest.mark.parametrize("code", swept([errno.EIO, errno.ENOSPC, errno.EROFS], errno.ENOSPC.__eq__))
def test_recovery_that_fails_says_whether_it_wrote(tmp_path: Path, code: int) -> None:
    """Exit code 4 means that nothing was written; whoever was stopped in the middle says so with another."""
    begun = 0

    def continued(tree: CheckoutTree) -> Result:
        return CliRunner().invoke(main, ["apply", "--continue", str(tree.root)])

    for number, tree in trees(tmp_path, lambda tree: killed(partial(apply, tree), 110), continued):
        before = contents(tree)
        with failing(number, code).on() as faults:
            result = continued(tree)
        assert result.exit_code in (0, 4, 5), result.exception
        if result.exit_code == 4:
            assert contents(tree) == before
        if result.exit_code == 5:
            begun += 1
            assert f"run patchkit apply --continue {tree.root}" in result.stderr
            # The last thing that can fail is to have the disk know that nothing is left to do.
            recover(tree)
            assert contents(tree) in (APPLIED, {file: SOURCES[file] for file in APPLIED})
    assert faults.count < number
    assert begun > 5


@pytest.mark.parametrize("back", [True, False])
def test_what_an_editor_writes_to_a_file_that_was_set_aside_is_kept(
    tree: CheckoutTree, halfway: int, back: bool
) -> None:
    opened = {file: (tree.package / file).open("r+b") for file in APPLIED}
    assert killed(partial(apply, tree), halfway)
    file = next(file for file, text in contents(tree).items() if text != SOURCES[file])
    with opened[file] as mine:
        mine.write(b"mine = 1\n")
        mine.truncate()
    if back:
        (tree.package / file).write_bytes(SOURCES[file])
    # A rollback puts the saved version in the place of the new content.
    for roll_back in (False, True) if back else (False,):
        with pytest.raises(TreeError, match=r"was saved by another program during the write"):
            recover(tree, roll_back=roll_back)
    aside = (tree.package / file).with_name(staged_name(Path(file).name))
    assert aside.read_bytes() == b"mine = 1\n"
    aside.unlink()
    assert recover(tree) == Recovery("finished", tuple(APPLIED))
    assert contents(tree) == APPLIED
    for each in opened.values():
        each.close()
