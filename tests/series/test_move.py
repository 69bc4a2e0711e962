"""A checkout moves to another commit whole, or stays as it was; what a person saves meanwhile is kept."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.faults import Faults, failing, interrupting, killings, telling
from support.repositories import committing, copied, hook, patched_states
from support.sweeps import crossed
from support.toys import CRLF, MIRROR, SOURCES, add_patch, checked_in, everything, git, new_file_edit

from patchkit import api
from patchkit.errors import TreeError, UnfinishedError
from patchkit.patchset import load
from patchkit.series.move import CheckoutMove, branch_of
from patchkit.transaction import folder as folders
from patchkit.transaction.revert import recorded
from patchkit.transaction.store import Store
from patchkit.transaction.write import locked

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.tree import CheckoutTree

MINE = b"mine = 1\n"


def put(tree: CheckoutTree, file: str, text: str = "") -> None:
    """Write a file of the checkout, or a link as ``name -> target``, in the place of whatever is there."""
    name, _, target = file.partition(" -> ")
    path = tree.root / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if target:
        path.symlink_to(target)
    else:
        path.write_text(text or f"text = {file!r}\n")


def committed(tree: CheckoutTree, subject: str) -> str:
    git(tree.root, "add", "-A", ".")
    git(tree.root, "commit", "-qm", subject)
    return git(tree.root, "rev-parse", "HEAD").strip()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CheckoutTree]:
    """Return a function that makes a checkout with a branch ``newer``, by what it takes away and brings."""

    @cache
    def make(taken: tuple[str, ...], brought: tuple[str, ...]) -> CheckoutTree:
        tree = committing(checked_in(tmp_path_factory.mktemp("made") / "fork"))
        for file in taken:
            put(tree, file)
        committed(tree, "Old")
        git(tree.root, "checkout", "-qb", "newer")
        for file in taken:
            git(tree.root, "rm", "-q", "--", f":(literal){file.partition(' -> ')[0]}")
        for file in brought:
            put(tree, file)
        path = tree.package / MIRROR
        path.write_bytes(path.read_bytes().replace(b"depth = 1", b"depth = 2"))
        committed(tree, "New")
        git(tree.root, "checkout", "-q", "-")
        return tree

    def copy(place: Path, taken: tuple[str, ...] = (), brought: tuple[str, ...] = ()) -> CheckoutTree:
        return copied(make(taken, brought), place / "fork")

    return copy


@pytest.fixture
def fork(made: Callable[..., CheckoutTree], tmp_path: Path) -> CheckoutTree:
    """A checkout whose newer commit changes a file, takes one away, and brings one and a folder."""
    return made(tmp_path, ("old.txt",), ("new.txt", "docs/deep/new.md"))


def move(tree: CheckoutTree, to: str = "newer") -> None:
    commits = (git(tree.root, "rev-parse", "HEAD").strip(), git(tree.root, "rev-parse", to).strip())
    with locked(tree) as store:
        scratch = tree.root.parent / "scratch"
        scratch.mkdir(exist_ok=True)
        moved = CheckoutMove(tree, commits, branch_of(tree.root), "a test", scratch=scratch)
        moved.write(store, tree.root, tree.record())


def state(tree: CheckoutTree) -> tuple[object, ...]:
    """Return what a move changes, and what it must not leave."""
    own = {"hooks", "ORIG_HEAD"}
    git_folder = sorted(path.name for path in (tree.root / ".git").iterdir() if path.name not in own)
    ledger = tree.package / ".patchkit"
    left = sorted(str(path.relative_to(ledger)) for path in ledger.rglob("*")) if ledger.exists() else []
    status = git(tree.root, "status", "--porcelain")
    links = {str(path): os.readlink(path) for path in tree.root.iterdir() if path.is_symlink()}
    left += git(tree.root, "for-each-ref", "refs/patchkit*").splitlines()
    left += sorted(os.listdir(tree.root / ".git" / "refs"))
    return everything(tree.root), links, status, git(tree.root, "rev-parse", "HEAD"), git_folder, left


def without_record(found: tuple[object, ...]) -> tuple[object, ...]:
    files, links, status, *rest = found[:-1]
    assert isinstance(files, dict)
    lines = [line for line in str(status).splitlines() if ".patchkit" not in line]
    return ({name: known for name, known in files.items() if ".patchkit" not in name}, links, lines, *rest)


def both(tree: CheckoutTree, folder: Path) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return the states before and after a move of a copy."""
    other = copied(tree, folder / "other")
    before = state(other)
    move(other)
    git(other.root, "diff", "--quiet", "newer")
    return tuple(_here(each, other, tree) for each in (before, state(other)))  # type: ignore[return-value]


def _here(found: tuple[object, ...], other: CheckoutTree, tree: CheckoutTree) -> tuple[object, ...]:
    links = found[1]
    assert isinstance(links, dict)
    moved = {path.replace(str(other.root), str(tree.root)): target for path, target in links.items()}
    return (found[0], moved, *found[2:])


SHAPES = [
    (("own.py",), ("own.py/part.py",)),
    (("own.py -> .gitignore",), ("own.py/deep/part.py",)),
    (("own.py/deep/part.py",), ("own.py",)),
    (("own.py/part.py",), ("own.py -> .gitignore",)),
    (("old.txt", "gone/a.py"), ("new.txt", "docs/deep/new.md")),
]


@pytest.mark.parametrize(("taken", "brought"), SHAPES)
def test_it_gives_what_git_checks_out(
    made: Callable[..., CheckoutTree], tmp_path: Path, taken: tuple[str, ...], brought: tuple[str, ...]
) -> None:
    fork = made(tmp_path, taken, brought)
    git_made = copied(fork, tmp_path / "git")
    git(git_made.root, "checkout", "-q", "newer")
    move(fork)
    assert everything(fork.root) == everything(git_made.root)
    assert git(fork.root, "status", "--porcelain") == ""
    assert git(fork.root, "rev-parse", "HEAD") == git(fork.root, "rev-parse", "newer")
    assert git(fork.root, "ls-files", "--stage") == git(git_made.root, "ls-files", "--stage")
    assert git(fork.root, "log", "-g", "-1", "--format=%gs") == "a test\n"


@pytest.mark.parametrize(("shape", "torn"), crossed(SHAPES, (False, True), one_in=2))
def test_killed_at_any_call_it_is_the_old_commit_or_the_new_one(
    made: Callable[..., CheckoutTree],
    tmp_path: Path,
    shape: tuple[tuple[str, ...], tuple[str, ...]],
    torn: bool,
) -> None:
    fork = made(tmp_path, *shape)
    old, new = both(fork, tmp_path)
    ended = []
    for _ in killings(partial(move, fork), fork.root, torn=torn):
        lock = fork.root / ".git" / "index.lock"
        if lock.exists() and not lock.read_bytes():
            lock.unlink()  # As recover asks for it.
        api.recover(fork)
        found = state(fork)
        assert found in (old, new)
        ended.append(found == new)
    assert ended[-1]
    assert not ended[0]
    assert ended == sorted(ended)


@pytest.mark.parametrize(("place", "renames"), crossed(("changed", "new", "taken"), (False, True), one_in=2))
def test_a_file_that_is_saved_at_any_moment_is_kept(
    fork: CheckoutTree, tmp_path: Path, place: str, renames: bool
) -> None:
    path = {"changed": fork.package / MIRROR, "new": fork.root / "new.txt", "taken": fork.root / "old.txt"}[
        place
    ]
    fresh, outcomes = tmp_path / "fresh", set()
    numbers = telling(partial(move, copied(fork, tmp_path / "told")))
    shutil.copytree(fork.root, fresh, symlinks=True)
    for number in numbers:

        def saving(at: int, name: str, arguments: tuple[Any, ...], number: int = number) -> None:
            if at == number:
                aside = path.with_name("mine.tmp") if renames else path
                aside.write_bytes(MINE)
                if renames:
                    aside.replace(path)

        with Faults(saving).on() as faults:
            try:
                move(fork)
                outcomes.add("moved")
            except UnfinishedError:
                outcomes.add("unfinished")
            except TreeError:
                outcomes.add("refused")
        reached = faults.count >= number
        kept = [file for file in fork.root.rglob("*") if ".git/" not in str(file) and file.is_file()]
        assert not reached or any(file.read_bytes() == MINE for file in kept)
        if Store(fork.package).pending:
            assert MINE in (file.read_bytes() for file in kept)
        else:
            assert not (fork.root / ".git" / "index.lock").exists()
            at_new = git(fork.root, "rev-parse", "HEAD") == git(fork.root, "rev-parse", "newer")
            commit = "newer" if at_new else "HEAD"
            names = git(fork.root, "diff", "--name-only", commit).split()
            assert set(names) <= {str(path.relative_to(fork.root))}
        shutil.rmtree(fork.root)
        shutil.copytree(fresh, fork.root, symlinks=True)
        git(fork.root, "update-index", "-q", "--refresh")
    assert not reached
    assert {"moved", "refused"} <= outcomes
    assert len(numbers) > 20


@pytest.mark.parametrize(("code", "lasting"), crossed((errno.EIO, errno.ENOSPC), (False, True), one_in=2))
def test_a_call_that_fails_changes_nothing_or_is_recovered(
    fork: CheckoutTree, tmp_path: Path, code: int, lasting: bool
) -> None:
    old, new = both(fork, tmp_path)
    fresh = tmp_path / "fresh"
    numbers = telling(partial(move, copied(fork, tmp_path / "told")), itself=True)
    shutil.copytree(fork.root, fresh, symlinks=True)
    for number in numbers:
        with failing(number, code, lasting=lasting).on() as faults:
            try:
                move(fork)
            except UnfinishedError:
                pass
            except TreeError:
                assert without_record(state(fork)) == without_record(old)
        if Store(fork.package).pending:
            api.recover(fork)
        # What cannot be tidied up is an empty ledger.
        found = state(fork)
        assert without_record(found) in (without_record(old), without_record(new))
        assert not Store(fork.package).pending
        assert not any(word in str(found[-1]) for word in ("journal", "staging/"))
        shutil.rmtree(fork.root)
        shutil.copytree(fresh, fork.root, symlinks=True)
        git(fork.root, "update-index", "-q", "--refresh")
    assert faults.count < number


def test_a_hook_of_refs_may_refuse(fork: CheckoutTree) -> None:
    before = state(fork)
    hook(fork, "reference-transaction", '[ "$1" != prepared ] || { echo No moves on Fridays >&2; exit 1; }')
    with pytest.raises(
        TreeError, match=r"could not be moved \(.*: No moves on Fridays\): nothing was changed"
    ):
        move(fork)
    (fork.root / ".git" / "hooks" / "reference-transaction").unlink()
    assert state(fork) == before
    move(fork)


@pytest.mark.parametrize(("taken", "brought"), SHAPES)
def test_what_was_written_when_the_branch_cannot_move_is_restored(
    made: Callable[..., CheckoutTree], tmp_path: Path, taken: tuple[str, ...], brought: tuple[str, ...]
) -> None:
    fork = made(tmp_path, taken, brought)
    before = state(fork)
    lock = fork.root / ".git" / f"{git(fork.root, 'symbolic-ref', 'HEAD').strip()}.lock"
    lock.touch()
    with pytest.raises(TreeError, match="could not be moved"):
        move(fork)
    lock.unlink()
    assert state(fork) == before
    move(fork)


def test_an_interruption_from_the_keyboard_restores(fork: CheckoutTree) -> None:
    before = state(fork)
    for number in (5, 12, 18):
        with interrupting(number).on(), pytest.raises(KeyboardInterrupt):
            move(fork)
        assert state(fork) == before


def halfway(tree: CheckoutTree) -> None:
    """Leave what a kill between two files leaves."""
    child = os.fork()
    if child == 0:
        exchanged: list[str] = []

        def die(number: int, name: str, arguments: tuple[Any, ...]) -> None:
            if name == "fsync" and exchanged:
                os._exit(9)
            if name == "exchange":
                exchanged.append(name)

        with suppress(BaseException), Faults(die).on():
            move(tree)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert Store(tree.package).pending
    assert tree.read(MIRROR) != SOURCES[MIRROR]


@pytest.mark.parametrize("roll_back", [False, True])
def test_while_the_branch_is_where_it_was_both_ways_lead_back(fork: CheckoutTree, roll_back: bool) -> None:
    before = state(fork)
    halfway(fork)
    assert api.recover(fork, roll_back=roll_back).action == "rolled-back"
    assert state(fork) == before


def test_a_lock_of_another_git_is_left_to_it(fork: CheckoutTree) -> None:
    halfway(fork)
    lock = fork.root / ".git" / "index.lock"
    lock.write_bytes(b"")
    with pytest.raises(TreeError, match=r"index\.lock exists: if no other git is running, remove it"):
        api.recover(fork)
    assert lock.exists()


def test_an_edit_since_the_kill_is_kept_and_named(fork: CheckoutTree) -> None:
    halfway(fork)
    path = fork.package / MIRROR
    path.write_bytes(path.read_bytes() + MINE)
    before = everything(fork.root / "python" / "sglang" / "srt")
    with pytest.raises(
        TreeError, match=rf"{MIRROR} was changed after the write was interrupted.*git checkout HEAD -- "
    ):
        api.recover(fork)
    assert everything(fork.root / "python" / "sglang" / "srt") == before
    (fork.root / ".git" / "index.lock").unlink()
    git(fork.root, "checkout", "HEAD", "--", str(path))
    api.recover(fork)
    assert fork.read(MIRROR) == SOURCES[MIRROR]
    assert git(fork.root, "status", "--porcelain") == ""


def test_what_a_person_put_back_with_git_is_left_as_it_is(fork: CheckoutTree) -> None:
    before = state(fork)
    halfway(fork)
    (fork.root / ".git" / "index.lock").unlink()
    git(fork.root, "reset", "-q", "--hard")
    git(fork.root, "clean", "-dfq")
    api.recover(fork)
    assert state(fork) == before


def test_an_index_that_a_person_moved_since_follows_the_branch(fork: CheckoutTree) -> None:
    before = state(fork)
    halfway(fork)
    (fork.root / ".git" / "index.lock").unlink()
    git(fork.root, "read-tree", "--reset", "-u", "newer")
    api.recover(fork)
    assert state(fork) == before


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_a_person_made_in_the_place_of_a_file_is_kept(fork: CheckoutTree, kind: str) -> None:
    halfway(fork)
    path = fork.package / MIRROR
    path.unlink()
    if kind == "folder":
        path.mkdir()
        (path / "mine.txt").write_text("mine")
    else:
        os.mkfifo(path)
    before = everything(fork.root / "python" / "sglang" / "srt")
    with pytest.raises(TreeError, match=r"was changed after the write was interrupted"):
        api.recover(fork)
    assert everything(fork.root / "python" / "sglang" / "srt") == before


def test_it_moves_where_names_cannot_be_exchanged(
    fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(folders, "exchange", unsupported)
    old, new = both(fork, tmp_path)
    for _ in killings(partial(move, fork), fork.root):
        api.recover(fork)
        assert state(fork) in (old, new)


def test_modes_and_links_move(fork: CheckoutTree) -> None:
    put(fork, "run.sh")
    put(fork, "plain.sh")
    (fork.root / "run.sh").chmod(0o755)
    put(fork, "link -> run.sh")
    put(fork, "file")
    old = committed(fork, "Programs")
    (fork.root / "run.sh").chmod(0o644)
    (fork.root / "plain.sh").chmod(0o755)
    put(fork, "link -> plain.sh")
    put(fork, "file -> run.sh")
    new = committed(fork, "Others")
    for commit in (old, new, old):
        git(fork.root, "branch", "-f", "to", commit)
        if git(fork.root, "rev-parse", "HEAD").strip() != commit:
            move(fork, "to")
        assert git(fork.root, "status", "--porcelain") == ""
        assert bool((fork.root / "run.sh").stat().st_mode & 0o111) is (commit == old)
        assert (fork.root / "file").is_symlink() is (commit == new)
    (fork.root / "run.sh").chmod(0o644)
    git(fork.root, "branch", "-f", "to", new)
    with pytest.raises(TreeError, match=r"run\.sh has uncommitted changes"):
        move(fork, "to")


def test_attributes_of_the_new_commit_decide(fork: CheckoutTree) -> None:
    put(fork, ".gitattributes", "*.txt text eol=crlf\n")
    put(fork, "lines.txt", "one\ntwo\n")
    new = committed(fork, "Line ends")
    git(fork.root, "worktree", "add", "-q", "--detach", "../at-new", new)
    git(fork.root, "reset", "-q", "--hard", "HEAD~1")
    commits = (git(fork.root, "rev-parse", "HEAD").strip(), new)
    with locked(fork) as store:
        moved = CheckoutMove(fork, commits, branch_of(fork.root), "a test")
        moved.write(store, fork.root.parent / "at-new", fork.record())
    assert (fork.root / "lines.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert git(fork.root, "status", "--porcelain") == ""


def test_a_filter_that_fails_changes_nothing(fork: CheckoutTree) -> None:
    put(fork, ".gitattributes", "new.txt filter=brittle\n")
    committed(fork, "Attributes")
    git(fork.root, "branch", "-f", "to", "HEAD")
    git(fork.root, "checkout", "-q", "-b", "with", "HEAD")
    put(fork, "new.txt")
    new = committed(fork, "New")
    git(fork.root, "reset", "-q", "--hard", "HEAD~1")
    git(fork.root, "config", "filter.brittle.smudge", "false")
    git(fork.root, "config", "filter.brittle.required", "true")
    before = state(fork)
    with pytest.raises(TreeError, match=r"new\.txt could not be moved to .*: nothing was changed"):
        move(fork, new)
    assert state(fork) == before


def test_what_a_sparse_checkout_leaves_out_stays_out(fork: CheckoutTree) -> None:
    git(fork.root, "sparse-checkout", "set", "python")
    assert not (fork.root / "docs").exists()
    move(fork)
    assert not (fork.root / "docs").exists()
    assert git(fork.root, "status", "--porcelain") == ""
    assert "S docs/deep/new.md" in git(fork.root, "ls-files", "-v").splitlines()


def test_a_file_that_a_person_deleted_is_not_made_again(fork: CheckoutTree) -> None:
    (fork.package / MIRROR).unlink()
    with pytest.raises(TreeError, match=rf"{MIRROR} has uncommitted changes"):
        move(fork)
    assert not (fork.package / MIRROR).exists()


def test_any_name_that_git_tracks_moves(made: Callable[..., CheckoutTree], tmp_path: Path) -> None:
    names = ("tab\tname", "line\nname", "-n", ":(glob)x", "é", os.fsdecode(b"\xff"))
    fork = made(tmp_path, names[:3], names[3:])
    old, new = both(fork, tmp_path)
    for number in killings(partial(move, fork), fork.root):
        if number % 3 == 0:
            api.recover(fork)
            assert state(fork) in (old, new)


def test_a_commit_with_files_in_patchkits_own_folder_is_refused(fork: CheckoutTree) -> None:
    put(fork, "python/sglang/.patchkit/ledger.json", "{}")
    git(fork.root, "add", "-f", "python/sglang/.patchkit/ledger.json")
    new = committed(fork, "Hostile")
    git(fork.root, "reset", "-q", "--hard", "HEAD~1")
    with pytest.raises(TreeError, match=r"ledger\.json is in the new commits"):
        move(fork, new)


def test_nobody_begins_before_a_git_ends_that_outlived_its_patchkit(
    fork: CheckoutTree, patch_folder: Path
) -> None:
    add_patch(patch_folder, "t-make", new_file_edit("srt/fresh/new.py", "made = 1"))
    go_on, pid = fork.root.parent / "go on", fork.root.parent / "pid"
    os.mkfifo(go_on)
    waits = f"[ \"$1\" != prepared ] || [ ! -e .git/index.lock ] || {{ kill -9 $(cat {pid}); read said < '{go_on}'; }}"
    hook(fork, "reference-transaction", waits)
    child = os.fork()
    if child == 0:
        pid.write_text(str(os.getpid()))
        with suppress(BaseException):
            api.commit(fork, load.patches())
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    with pytest.raises(TreeError, match="another patchkit"):
        api.recover(fork)
    go_on.write_text("go on\n")
    for _ in range(1000):
        if not Store(fork.package).pending:
            break
        with suppress(TreeError):
            api.recover(fork)
        time.sleep(0.01)
    assert set(patched_states(fork).values()) == {"applied"}
    assert git(fork.root, "status", "--porcelain") == ""
    assert set(recorded(fork)) == {"t-flag", "t-guard", "t-make", "t-stop"}


def test_files_are_on_disk_before_the_branch_moves(
    fork: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[int] = set()
    run = subprocess.run
    asked: list[bool] = []

    def before_the_branch(words: Any, *rest: Any, **keys: Any) -> Any:
        if {"update-ref", "HEAD"} <= set(words):
            asked.append("core.fsync=all" in words)
            for file in (f"python/sglang/{MIRROR}", "new.txt", "docs/deep/new.md", "docs", "docs/deep", "."):
                assert (fork.root / file).stat().st_ino in flushed
        return run(words, *rest, **keys)

    monkeypatch.setattr(subprocess, "run", before_the_branch)
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    move(fork)
    assert asked == [True]
    assert fork.read(CRLF) == SOURCES[CRLF]


def test_a_save_while_a_refused_move_is_taken_back_is_kept(fork: CheckoutTree, tmp_path: Path) -> None:
    lock = fork.root / ".git" / f"{git(fork.root, 'symbolic-ref', 'HEAD').strip()}.lock"
    lock.touch()
    fresh = tmp_path / "fresh"
    shutil.copytree(fork.root, fresh, symlinks=True)

    def refused() -> None:
        with pytest.raises(TreeError):
            move(fork)

    # Before these it is written.
    numbers = [number for number in telling(refused) if number >= 60]
    saved = {fork.package / MIRROR: MINE, fork.root / "new.txt": MINE * 2}
    for number in numbers:

        def saving(at: int, name: str, arguments: tuple[Any, ...], number: int = number) -> None:
            if at == number:
                for path, content in saved.items():
                    path.write_bytes(content)

        with Faults(saving).on() as faults, suppress(TreeError, UnfinishedError):
            move(fork)
        kept = [file for file in fork.root.rglob("*") if ".git/" not in str(file) and file.is_file()]
        assert faults.count < number or {*saved.values()} <= {file.read_bytes() for file in kept}
        shutil.rmtree(fork.root)
        shutil.copytree(fresh, fork.root, symlinks=True)
        git(fork.root, "update-index", "-q", "--refresh")


@pytest.mark.parametrize("act", ["commit", "branch"])
def test_a_write_is_not_finished_where_a_person_went_elsewhere(fork: CheckoutTree, act: str) -> None:
    base = git(fork.root, "rev-parse", "HEAD").strip()
    halfway(fork)
    (fork.root / ".git" / "index.lock").unlink()
    if act == "commit":
        git(fork.root, "commit", "-qm", "Mine", "--allow-empty")
    else:
        git(fork.root, "stash", "-q", "-u")
        git(fork.root, "switch", "-qc", "other")
        git(fork.root, "commit", "-qm", "Mine", "--allow-empty")
    with pytest.raises(TreeError, match=rf"is at .* but the write began at .*git checkout --detach {base}"):
        api.recover(fork)
    assert Store(fork.package).pending


def test_a_branch_that_has_moved_is_not_taken_for_one_that_has_not(
    fork: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, asked = subprocess.run, []

    def failing_after(words: Any, *rest: Any, **keys: Any) -> Any:
        if {"update-ref", "HEAD"} <= set(words):
            asked.append(words)
        elif asked and words[-2:] == ["rev-parse", "HEAD"] and len(asked) == 1:
            asked.append(words)
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return run(words, *rest, **keys)

    monkeypatch.setattr(subprocess, "run", failing_after)
    with pytest.raises(UnfinishedError):
        move(fork)
    api.recover(fork)
    assert git(fork.root, "rev-parse", "HEAD") == git(fork.root, "rev-parse", "newer")
    assert git(fork.root, "status", "--porcelain") == ""


def test_a_permission_that_a_person_changed_is_refused(fork: CheckoutTree) -> None:
    (fork.package / MIRROR).chmod(0o755)
    with pytest.raises(TreeError, match=rf"{MIRROR} has uncommitted changes"):
        move(fork)


def test_where_git_keeps_no_modes_a_program_stays_one(fork: CheckoutTree) -> None:
    put(fork, "run.sh")
    (fork.root / "run.sh").chmod(0o755)
    committed(fork, "Program")
    put(fork, "run.sh", "more\n")
    (fork.root / "run.sh").chmod(0o755)
    new = committed(fork, "More")
    git(fork.root, "reset", "-q", "--hard", "HEAD~1")
    git(fork.root, "config", "core.fileMode", "false")
    move(fork, new)
    assert (fork.root / "run.sh").stat().st_mode & 0o111


def test_a_disk_that_is_full_when_the_index_is_locked_leaves_no_lock(fork: CheckoutTree) -> None:
    lock = fork.root / ".git" / "index.lock"

    real = os.fdopen

    def failing_open(handle: int, mode: str = "r", *rest: Any, **keys: Any) -> Any:
        if lock.exists() and not lock.read_bytes():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, mode, *rest, **keys)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fdopen", failing_open)
        with pytest.raises(TreeError, match="nothing was changed"):
            move(fork)
    assert not lock.exists()
    move(fork)


# ---- what a person has, and git does not show ----------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["input", "true", "false"])
def test_line_ends_that_a_person_changed_are_kept(fork: CheckoutTree, setting: str) -> None:
    git(fork.root, "config", "core.autocrlf", "false" if setting == "true" else setting)
    path = fork.package / MIRROR
    mine = path.read_bytes().replace(b"\n", b"\r\n", 3)
    path.write_bytes(mine)
    git(fork.root, "config", "core.autocrlf", setting)
    with pytest.raises(TreeError, match=rf"{MIRROR} has (other line ends|uncommitted changes)") as caught:
        move(fork)
    assert path.read_bytes() == mine
    if "other line ends" in str(caught.value):
        assert f"rm {path} && git checkout -- {path}, then" in str(caught.value)
        path.unlink()
    git(fork.root, "checkout", "--", str(path))
    move(fork)


def test_a_file_as_it_is_in_the_object_is_no_edit_where_a_filter_is_new(fork: CheckoutTree) -> None:
    git(fork.root, "config", "core.autocrlf", "true")
    old = fork.read(MIRROR) or b""
    new = old.replace(b"depth = 1", b"depth = 2").replace(b"\n", b"\r\n")
    ended = []
    for _ in killings(partial(move, fork), fork.root):
        api.recover(fork)
        ended.append(fork.read(MIRROR))
        assert git(fork.root, "status", "--porcelain") == ""
    assert set(ended) == {old, new}


def test_a_file_that_a_person_took_out_of_the_index_stays_on_disk(fork: CheckoutTree) -> None:
    git(fork.root, "rm", "-q", "--cached", "old.txt")
    text = (fork.root / "old.txt").read_bytes()
    move(fork)
    assert (fork.root / "old.txt").read_bytes() == text
    assert git(fork.root, "status", "--porcelain") == "?? old.txt\n"


def test_a_new_commit_outlives_a_git_gc_after_a_kill(fork: CheckoutTree) -> None:
    before = state(fork)
    halfway(fork)
    git(fork.root, "branch", "-qD", "newer")
    git(fork.root, "reflog", "expire", "--expire=now", "--all")
    git(fork.root, "gc", "-q", "--prune=now")
    api.recover(fork)
    found = state(fork)
    # git gc makes files in its folder.
    assert (*found[:4], found[5]) == (*before[:4], before[5])


def test_what_an_editor_writes_to_the_file_that_it_opened_before_a_kill_is_kept(fork: CheckoutTree) -> None:
    before = state(fork)
    with (fork.package / MIRROR).open("r+b") as opened:
        halfway(fork)
        opened.write(MINE)
        opened.truncate()
    (fork.root / ".git" / "index.lock").unlink()
    git(fork.root, "reset", "-q", "--hard")
    git(fork.root, "clean", "-dfq")
    with pytest.raises(TreeError, match=r"was saved by another program during the write") as caught:
        api.recover(fork)
    aside = Path(str(caught.value).partition("the saved version is in ")[2].partition(":")[0])
    assert aside.read_bytes() == MINE
    aside.rename(fork.root.parent / "mine.py")
    api.recover(fork)
    assert state(fork) == before


def test_a_folder_on_another_file_system_is_refused(
    fork: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(real: Callable[..., Any], *arguments: Any, **keys: Any) -> Any:
        handles = [keys[key] for key in ("src_dir_fd", "dst_dir_fd") if key in keys] or arguments[::2]
        first, second = (os.fstat(handle).st_ino for handle in handles)
        if first != second:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return real(*arguments, **keys)

    before = state(fork)
    monkeypatch.setattr(folders, "exchange", partial(other, folders.exchange))
    for name in ("link", "rename"):
        monkeypatch.setattr(os, name, partial(other, getattr(os, name)))
    with pytest.raises(TreeError, match=r"Invalid cross-device link.*nothing was changed"):
        move(fork)
    assert state(fork) == before


def test_names_that_are_one_to_the_file_system_are_refused(
    made: Callable[..., CheckoutTree], tmp_path: Path
) -> None:
    fork = made(tmp_path, ("old.txt",), ("OLD.txt",))
    git(fork.root, "config", "core.ignoreCase", "true")
    before = state(fork)
    with pytest.raises(TreeError, match=r"OLD\.txt and \S+old\.txt are one file on this file system"):
        move(fork)
    assert state(fork) == before


def test_a_checkout_that_its_settings_name_moves(fork: CheckoutTree) -> None:
    git(fork.root, "config", "core.worktree", str(fork.root))
    move(fork)
    assert git(fork.root, "status", "--porcelain") == ""
    assert git(fork.root, "rev-parse", "HEAD") == git(fork.root, "rev-parse", "newer")


@pytest.mark.parametrize(
    "words",
    [("--split-index",), ("--index-version", "4"), ("--untracked-cache",)],
    ids=lambda words: words[0].strip("-"),
)
def test_any_kind_of_index_moves(fork: CheckoutTree, words: tuple[str, ...]) -> None:
    git(fork.root, "update-index", *words)
    git(fork.root, "status")
    move(fork)
    assert git(fork.root, "status", "--porcelain") == ""
    assert git(fork.root, "diff", "--name-only", "newer") == ""
