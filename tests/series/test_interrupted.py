"""Git may be killed while it brings files to a checkout: recover leads to the old tree or the new one."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import pytest
from support.repositories import committing, copied, hook, patched_states
from support.sweeps import crossed
from support.toys import MIRROR, add_patch, checked_in, everything, git, new_file_edit

from patchkit import api
from patchkit.errors import TreeError, UnfinishedError
from patchkit.patchset import load
from patchkit.transaction.revert import recorded
from patchkit.transaction.store import Store
from patchkit.transaction.write import locked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree

FRESH = "srt/fresh/new.py"


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CheckoutTree]:
    """Return a function that makes a checkout in which git runs a program for each file that it brings.

    With two names, it is patched and has the one, and the branch ``newer`` the other, as in ``replacing``.
    """

    @cache
    def made(*names: str) -> CheckoutTree:
        folder = tmp_path_factory.mktemp("forks")
        if names:
            tree = copied(made(), folder / "fork")
            smudging(tree, "")
            replacing(tree, *names)
            return tree
        tree = committing(checked_in(folder / "fork"))
        smudging(tree, "")
        # In the temporary worktrees, which are another folder for git, no filter runs.
        git(tree.root, "config", "includeIf.gitdir:fork/.git.path", "filters")
        filtering(tree, "smudge", "../smudge")
        (tree.root / ".gitattributes").write_text("*.py filter=fatal\n")
        git(tree.root, "add", ".")
        git(tree.root, "commit", "-qm", "Attributes")
        return tree

    def copy(folder: Path, *names: str) -> CheckoutTree:
        tree = copied(made(*names), folder / "fork")
        smudging(tree, "")
        return tree

    return copy


@pytest.fixture(autouse=True)
def _one_more_patch(patch_folder: Path) -> None:
    add_patch(patch_folder, "t-make", new_file_edit(FRESH, "made = 1"))


@pytest.fixture
def fork(forks: Callable[..., CheckoutTree], tmp_path: Path) -> CheckoutTree:
    return forks(tmp_path)


def filtering(tree: CheckoutTree, key: str, value: str) -> None:
    """Set what git does with each file in the checkout."""
    git(tree.root, "config", "--file", ".git/filters", f"filter.fatal.{key}", value)


def requiring(tree: CheckoutTree) -> None:
    """Let git fail where the program fails."""
    filtering(tree, "clean", "cat")
    filtering(tree, "required", "true")


def smudging(tree: CheckoutTree, text: str) -> None:
    """Let git run ``text`` in the checkout before it brings a file, whose number is ``$n``."""
    folder = tree.root.parent
    count = f"echo >> {folder}/count; n=$(wc -l < {folder}/count); {text}" if text else ""
    (folder / "count").unlink(missing_ok=True)
    (folder / "smudge").write_text(f"#!/bin/sh\n{count}\ncat\n")
    (folder / "smudge").chmod(0o755)


def committing_apart(tree: CheckoutTree, merged: str = "") -> int:
    """Commit all patches in a process that the smudge filter may kill; return its exit code, or minus the signal.

    With the name of a branch, merge that instead.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            (tree.root.parent / "pid").write_text(str(os.getpid()))
            if merged:
                api.merge(tree, load.patches(), merged)
            else:
                api.commit(tree, load.patches())
            code = 0
        except UnfinishedError as error:
            code = 7 if f"run patchkit apply --continue {tree.root}" in str(error) else 8
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def stopped(tree: CheckoutTree, at: int, *, patchkit_too: bool = True, merged: str = "") -> None:
    """Let git, and patchkit too, be killed when git brings a file of the patches, or of a branch that is merged."""
    killing = f"kill -9 $(cat {tree.root.parent}/pid); kill -9 0" if patchkit_too else "kill -9 0"
    smudging(tree, f"[ $n != {at} ] || {{ {killing}; }}")
    assert committing_apart(tree, merged) == (-9 if patchkit_too else 7)
    assert Store(tree.package).pending
    smudging(tree, "")
    # The killed git ends a moment later, and holds the lock until then.
    for _ in range(1000):
        with suppress(TreeError), locked(tree, recovering=True):
            return
        time.sleep(0.01)
    raise AssertionError("the lock is still held")


def unlocked(tree: CheckoutTree) -> None:
    """Remove, as recover asks for it, the lock that a killed git leaves."""
    with pytest.raises(TreeError, match=r"index\.lock exists: if no other git is running, remove it"):
        api.recover(tree)
    (tree.root / ".git" / "index.lock").unlink()


def is_as_before(tree: CheckoutTree, before: object) -> None:
    assert everything(tree.root) == before
    assert git(tree.root, "status", "--porcelain") == ""
    assert git(tree.root, "log", "--format=%s").splitlines()[0] == "Attributes"
    assert recorded(tree) == ()
    assert git(tree.root, "worktree", "list").count("\n") == 1


def is_patched(tree: CheckoutTree) -> None:
    assert set(patched_states(tree).values()) == {"applied"}
    assert git(tree.root, "status", "--porcelain") == ""


@pytest.mark.parametrize(("at", "patchkit_too"), [(1, True), (2, False), (3, True), (4, False)])
def test_a_checkout_is_put_back_whose_git_was_killed_while_it_brought_files(
    fork: CheckoutTree, at: int, patchkit_too: bool
) -> None:
    before = everything(fork.root)
    stopped(fork, at, patchkit_too=patchkit_too)
    assert everything(fork.root) != before
    unlocked(fork)
    assert api.recover(fork).action == "rolled-back"
    is_as_before(fork, before)
    api.commit(fork, load.patches())
    is_patched(fork)


@pytest.mark.parametrize("roll_back", [False, True], ids=["continue", "abort"])
def test_a_checkout_whose_branch_git_did_not_move_is_restored_with_files_and_index(
    fork: CheckoutTree, roll_back: bool
) -> None:
    before = everything(fork.root)
    stopped(fork, 1)
    journal = Store(fork.package).journal()
    assert journal is not None
    assert isinstance(journal.move, tuple)
    (fork.root / ".git" / "index.lock").unlink()
    git(fork.root, "read-tree", "--reset", "-u", journal.move[1])
    assert "\nM  " in git(fork.root, "status", "--porcelain")
    assert api.recover(fork, roll_back=roll_back).action == "rolled-back"
    is_as_before(fork, before)


def test_a_piece_of_a_file_is_no_edit(fork: CheckoutTree) -> None:
    before = everything(fork.root)
    stopped(fork, 4)
    path = fork.package / MIRROR
    path.write_bytes(path.read_bytes()[:40])
    unlocked(fork)
    api.recover(fork)
    is_as_before(fork, before)


def test_an_edit_since_git_was_killed_is_kept_and_named(fork: CheckoutTree) -> None:
    old = fork.read(MIRROR)
    stopped(fork, 4)
    path = fork.package / MIRROR
    path.write_bytes(path.read_bytes() + b"mine = 1\n")
    unlocked(fork)
    before = everything(fork.root / "python" / "sglang" / "srt")
    with pytest.raises(
        TreeError, match=rf"{MIRROR} was changed after git was interrupted.*git checkout HEAD -- "
    ):
        api.recover(fork)
    assert everything(fork.root / "python" / "sglang" / "srt") == before
    git(fork.root, "checkout", "HEAD", "--", str(path))
    api.recover(fork)
    assert fork.read(MIRROR) == old
    assert git(fork.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("kind", ["folder", "pipe", "link above", "file above"])
def test_what_a_person_made_in_the_place_of_a_file_is_kept(fork: CheckoutTree, kind: str) -> None:
    stopped(fork, 4)
    path = fork.package / MIRROR
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
        (path / "mine.txt").write_text("mine")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        aside = path.parent.rename(fork.root.parent / "aside")
        if kind == "link above":
            path.parent.symlink_to(aside)
        else:
            path.parent.write_text("mine")
    unlocked(fork)
    before = everything(fork.root / "python" / "sglang")
    with pytest.raises(TreeError, match=r"was changed after git was interrupted"):
        api.recover(fork)
    assert everything(fork.root / "python" / "sglang") == before
    if kind == "folder":
        path.rename(path.with_name("mine"))
        api.recover(fork)
        assert (path.with_name("mine") / "mine.txt").read_text() == "mine"
        assert git(fork.root, "status", "--porcelain").split() == ["??", "python/sglang/srt/managers/mine/"]


def test_what_a_person_put_back_with_git_is_left_as_it_is(fork: CheckoutTree) -> None:
    before = everything(fork.root)
    stopped(fork, 3)
    (fork.root / ".git" / "index.lock").unlink()
    git(fork.root, "reset", "-q", "--hard")
    git(fork.root, "clean", "-dfq")
    api.recover(fork)
    is_as_before(fork, before)


SHAPES = [
    ("own.py", "own.py/part.py"),
    ("own.py -> .gitattributes", "own.py/part.py"),
    ("own.py/part.py", "own.py"),
    ("own.py/part.py", "own.py -> .gitattributes"),
]


def written(tree: CheckoutTree, file: str) -> None:
    """Commit a file, or a link as ``name -> target``."""
    name, _, target = file.partition(" -> ")
    path = tree.root / name
    path.parent.mkdir(exist_ok=True)
    if target:
        path.symlink_to(target)
    else:
        path.write_text(f"text = {file!r}\n")
    git(tree.root, "add", ".")
    git(tree.root, "commit", "-qm", file)


def replacing(tree: CheckoutTree, old: str, new: str) -> None:
    """Patch a checkout that has ``old``, where the branch ``newer`` has ``new`` in its place, and a file after it."""
    written(tree, old)
    git(tree.root, "checkout", "-qb", "newer")
    git(tree.root, "rm", "-q", old.partition(" -> ")[0])
    (tree.root / "python" / "last.py").write_text("last = True\n")
    written(tree, new)
    git(tree.root, "checkout", "-q", "-")
    api.commit(tree, load.patches())


def number_of_last(new: str) -> int:
    """Return the number of the last file that git brings with ``new``: a link is not smudged."""
    return 1 if "->" in new else 2


@pytest.mark.parametrize(("shape", "at"), crossed(SHAPES, ("last file", "branch", "reset"), one_in=2))
def test_a_folder_for_a_file_and_a_file_for_a_folder_are_put_back(
    forks: Callable[..., CheckoutTree], tmp_path: Path, shape: tuple[str, str], at: str
) -> None:
    fork, new = forks(tmp_path, *shape), shape[1]
    before, head = everything(fork.root), git(fork.root, "rev-parse", "HEAD")
    stopped(fork, number_of_last(new) if at == "last file" else 1, merged="newer")
    unlocked(fork)
    journal = Store(fork.package).journal()
    assert journal is not None
    assert isinstance(journal.move, tuple)
    if at == "branch":
        git(fork.root, "read-tree", "--reset", "-u", journal.move[1])
    elif at == "reset":
        git(fork.root, "reset", "-q", "--hard")
    assert api.recover(fork).action == "rolled-back"
    assert everything(fork.root) == before
    assert git(fork.root, "status", "--porcelain") == ""
    assert git(fork.root, "rev-parse", "HEAD") == head
    assert api.merge(fork, load.patches(), "newer").merged


@pytest.mark.parametrize(("old", "new"), SHAPES)
def test_a_folder_for_a_file_and_a_file_for_a_folder_are_put_back_if_git_fails(
    forks: Callable[..., CheckoutTree], tmp_path: Path, old: str, new: str
) -> None:
    fork = forks(tmp_path, old, new)
    before, head = everything(fork.root), git(fork.root, "rev-parse", "HEAD")
    requiring(fork)
    smudging(fork, f"[ $n != {number_of_last(new)} ] || exit 1")
    with pytest.raises(TreeError, match="could not be moved"):
        api.merge(fork, load.patches(), "newer")
    smudging(fork, "")
    assert everything(fork.root) == before
    assert git(fork.root, "status", "--porcelain") == ""
    assert git(fork.root, "rev-parse", "HEAD") == head
    assert api.merge(fork, load.patches(), "newer").merged


@pytest.mark.parametrize(("old", "new"), [SHAPES[0], SHAPES[2]])
def test_an_edit_of_what_replaced_a_file_or_folder_is_kept_if_git_fails(
    forks: Callable[..., CheckoutTree], tmp_path: Path, old: str, new: str
) -> None:
    fork = forks(tmp_path, old, new)
    requiring(fork)
    smudging(fork, f"[ $n != 2 ] || {{ echo mine > {fork.root / new}; exit 1; }}")
    with pytest.raises(TreeError, match="could not be moved"):
        api.merge(fork, load.patches(), "newer")
    assert (fork.root / new).read_text() == "mine\n"


def test_nobody_begins_before_a_git_ends_that_outlived_its_patchkit(fork: CheckoutTree) -> None:
    go_on = fork.root.parent / "go on"
    os.mkfifo(go_on)
    smudging(fork, f"[ $n != 2 ] || {{ kill -9 $(cat {fork.root.parent}/pid); read said < '{go_on}'; }}")
    assert committing_apart(fork) == -9
    with pytest.raises(TreeError, match="another patchkit"):
        api.recover(fork)
    go_on.write_text("go on\n")
    while Store(fork.package).pending:
        with suppress(TreeError):
            api.recover(fork)
    is_patched(fork)
    assert set(recorded(fork)) == {"t-flag", "t-guard", "t-make", "t-stop"}


def test_files_are_on_disk_before_the_branch_moves(
    fork: CheckoutTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sync").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/synced\ngit log -1 --format=%s >> {tmp_path}/head\n'
    )
    (programs / "sync").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    hook(fork, "pre-commit", f"git config core.fsync > {tmp_path}/told")
    api.commit(fork, load.patches())
    changed = git(fork.root, "diff", "--name-only", "HEAD~4", "HEAD").split()
    assert set((tmp_path / "synced").read_text().split()) == {"--", *changed}
    assert (tmp_path / "head").read_text() == "Attributes\n"
    assert (tmp_path / "told").read_text() == "all\n"
