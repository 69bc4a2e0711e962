"""Commits are made in a linked worktree of their own, and a checkout moves to the last of them in one step.

Until then its branch, index, files and ledger are untouched, and afterwards no trace of the worktree is left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError, TreeError, UnfinishedError
from patchkit.transaction import adopt
from patchkit.transaction.store import Store
from patchkit.transaction.write import locked
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import git
from patchkit.tree.tree import CheckoutTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from subprocess import CompletedProcess

_PREFIX, _LOCK = "patchkit-commit-", "lock"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ROUNDS = 5
_BLOCK = 4096
# Git goes on in the background otherwise, in a worktree that is gone by then.
_AT_ONCE = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
# Git leaves it to the disk when objects are written, and a branch may be there before its commit is.
_FLUSHED = ("-c", "core.fsync=all")
_NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")
OWN_FILES = ("-c", "submodule.recurse=false")

# One process, so that no end of patchkit's comes in between. A dry run has shown that nothing is in the way, so what
# fails then is a disk; files go back as the index, which is written last, has them.
_MOVE = r"""!move() {
    base=$1 last=$2 why=$3
    git update-index -q --refresh
    git read-tree -m -u "$base" "$last"
    got=$?
    # A killed one leaves its lock on the index: recover waits for that to go.
    [ $got -gt 128 ] && exit 3
    if [ $got -ne 0 ]; then
        git diff-tree -r -z --no-renames --name-only --diff-filter=A "$base" "$last" | xargs -0 rm -f -- &&
        git diff-tree -r -z --no-renames --name-only --diff-filter=a "$base" "$last" |
            git checkout-index -q -f -z --stdin || exit 3
        exit 2
    fi
    # Whoever finds the new commit after a power cut finds its files.
    git diff-tree -r -z --no-renames --name-only --diff-filter=d "$base" "$last" | xargs -0 sync -- 2>/dev/null
    git update-ref -m "$why" HEAD "$last" "$base" && exit 0
    git read-tree -m -u "$last" "$base" || exit 3
    exit 2
}; move"""


class RefusedCommitError(PatchkitError):
    """Git or a hook refused a commit, and nothing was changed."""


@dataclass(frozen=True)
class Linked:
    """A linked worktree at a commit of a checkout: the same package in it, and what git has to be told there.

    ``base`` and ``branch`` are what the checkout had as HEAD when the worktree was made.
    """

    tree: CheckoutTree
    top: Path
    settings: tuple[str, ...]
    base: str
    branch: str

    @property
    def head(self) -> str:
        """The commit that the worktree has checked out."""
        return asked(self.top, "rev-parse", "HEAD")

    def switch(self, commit: str) -> None:
        """Check out another commit."""
        asked(self.top, *OWN_FILES, "checkout", "--quiet", "--detach", commit)

    def become(self, tree: str) -> None:
        """Let index and files be those of a commit or of a tree; the commit that is checked out stays the same."""
        asked(self.top, *OWN_FILES, "read-tree", "--reset", "-u", tree)

    def add(self, files: Sequence[str]) -> None:
        """Put files of the package as they stand into the index."""
        git(self.tree.package, "update-index", "--no-assume-unchanged", *files)
        asked(self.tree.package, "add", "--all", "--force", *files)

    def commit(self, files: Sequence[str], message: str) -> str:
        """Commit files of the package with what hooks make of them, and return the commit's id."""
        self.add(files)
        return self.accepted("commit", "--quiet", "--cleanup=whitespace", "--message", message)

    def accepted(self, *arguments: str) -> str:
        """Let git commit until its hooks change no file any more; RefusedCommitError if they refuse.

        A formatter that runs as a hook rewrites files and refuses, or rewrites them and goes on: both times what
        it made of them is what the commit is to have.
        """
        left, start = adopt.unedited(self.tree), self.head
        try:
            for _ in range(_ROUNDS):
                before = asked(self.top, "write-tree")
                done = git(self.top, *self.settings, *arguments, personal=True)
                asked(self.top, "add", "--update", ".")
                now = asked(self.top, "write-tree")
                if done.returncode == 0:
                    if self.head == start:
                        raise RefusedCommitError("git's hooks took the commit back")
                    if now == asked(self.top, "rev-parse", "HEAD^{tree}"):
                        return self.head
                    arguments = ("commit", "--quiet", "--amend", "--no-edit")
                elif now == before:
                    raise RefusedCommitError(f"git refused the commit ({said(done)})")
        finally:
            if self.tree.package.is_dir():  # Else a hook has removed it, which is said already.
                adopt.note_rewritten(self.tree, left)
        raise RefusedCommitError("git's hooks change files anew at each commit")


def asked(folder: Path, *arguments: str) -> str:
    """Return what git says; TreeError with its reason, which leaves the person's checkout as it was, if it fails."""
    done = quietly(folder, *arguments)
    if done.returncode != 0:
        command = next(word for word in arguments if not word.startswith("-") and "=" not in word)
        raise TreeError(
            f"git {command} failed in {folder} ({said(done)}): nothing was changed; fix the cause."
        )
    return os.fsdecode(done.stdout).strip()


def quietly(
    folder: Path, *arguments: str, settings: Mapping[str, str] | None = None, apart: bool = False
) -> CompletedProcess[bytes]:
    """Run git with the filters that make files what they are, and without hooks; names are no patterns."""
    told = {"GIT_LITERAL_PATHSPECS": "1", **(settings or {})}
    return git(folder, *_NO_HOOKS, *arguments, settings=told, personal=True, apart=apart)


def said(done: CompletedProcess[bytes]) -> str:
    """Return the line in which git, or a hook that it ran, says what is wrong."""
    lines = [line.strip() for line in (done.stderr or done.stdout).decode(errors="replace").splitlines()]
    failed = (line for line in lines if any(word in line.lower() for word in ("fail", "error", "fatal")))
    return next(failed, next(filter(None, lines), "it did not say why"))


@contextmanager
def linked(tree: CheckoutTree, why: str) -> Iterator[Linked]:
    """Make a linked worktree at the commit of ``tree``; what is committed in it comes to ``tree`` at the end.

    Where the body raises, or ``tree`` cannot move, nothing of it changes: TreeError. ``why`` is for the reflog.
    """
    sweep(tree)
    with locked(tree) as store, _temporary(tree) as there:
        adopt.copy(tree, there.tree)
        try:
            yield there
        except RefusedCommitError as error:
            raise RefusedCommitError(
                f"{error}, so nothing was changed: fix what refused it, then try again; hooks run in a worktree of "
                "its own, which has no untracked files."
            ) from None
        with _uninterrupted():
            # A patch that another has made whole is recorded without a commit.
            last = there.head
            adopt.adopt(tree, store, there.tree, (there.base, last), lambda: _move(tree, there, last, why))


def sweep(tree: CheckoutTree) -> None:
    """Remove what a patchkit that was killed has left: worktrees in the repository of ``tree``, temporary folders."""
    listed = os.fsdecode(git(tree.root, "worktree", "list", "--porcelain").stdout).splitlines()
    named = (Path(line.partition(" ")[2]) for line in listed if line.startswith("worktree "))
    ours = {place.parent: place for place in named if place.parent.name.startswith(_PREFIX)}
    # One that was killed early has a folder, and no worktree in it that git knows of.
    with suppress(OSError):  # Where every disk is full, Python knows of no temporary folder.
        for folder in Path(tempfile.gettempdir()).resolve().glob(f"{_PREFIX}*"):
            ours.setdefault(folder, folder / tree.root.name)
    for folder, place in ours.items():
        with suppress(OSError):
            if not folder.exists():
                _remove(tree, place)
            elif (folder / _LOCK).exists() and folder.lstat().st_uid == os.geteuid():
                with _held(folder):
                    _remove(tree, place)


@contextmanager
def _temporary(tree: CheckoutTree) -> Iterator[Linked]:
    top = Path(asked(tree.package, "rev-parse", "--show-toplevel"))
    head, branch = asked(tree.package, "rev-parse", "--verify", "HEAD^{commit}"), _branch(tree)
    with ExitStack() as stack:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
            place = folder / top.name
            stack.callback(_remove_for_good, tree, place)
            stack.enter_context(_held(folder))
        except OSError as error:
            raise TreeError(
                f"{error.filename or 'TMPDIR'}: {error.strerror}: nothing was changed; free some space there or "
                "set TMPDIR."
            ) from error
        # What lies in LFS is no source, and would be fetched.
        told = {"GIT_LFS_SKIP_SMUDGE": "1"}
        made = quietly(top, "worktree", "add", "--quiet", "--detach", str(place), head, settings=told)
        if made.returncode != 0:
            raise TreeError(
                f"git worktree add failed in {place} ({said(made)}): nothing was changed; fix the cause, or let "
                "TMPDIR name a folder with space for the files of a checkout."
            )
        # What differs from its commit as soon as it is checked out, as its line ends may, no hook has rewritten.
        differing = asked(place, "diff", "--name-only").splitlines()
        if differing:
            asked(place, "update-index", "--assume-unchanged", *differing)
        package = place / tree.package.relative_to(top)
        root = place / tree.root.relative_to(top) if tree.root.is_relative_to(top) else package.parent
        settings = (*_AT_ONCE, *_FLUSHED, *_hooks(top, place))
        yield Linked(CheckoutTree(root, package), place, settings, head, branch)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the lock that says that whoever made the folder is at work; BlockingIOError if another has it."""
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _remove_for_good(tree: CheckoutTree, place: Path) -> None:
    with _uninterrupted():
        _remove(tree, place)


def _remove(tree: CheckoutTree, place: Path) -> None:
    # What is left here is swept next time.
    with suppress(TreeError):
        # Twice: one that git was killed in the middle of making is locked.
        git(tree.root, "worktree", "remove", "--force", "--force", str(place), apart=True)
        shutil.rmtree(place.parent, ignore_errors=True)
    with suppress(TreeError):
        # Where git gave up making one, its folder is left, with nothing of anybody's.
        git(tree.root, "worktree", "prune", "--expire=never", apart=True)


def _hooks(top: Path, place: Path) -> tuple[str, ...]:
    """Return what lets git find hooks that the checkout names by a folder which git does not keep."""
    named = git(top, "config", "--type=path", "core.hooksPath", personal=True).stdout
    hooks = os.fsdecode(named).rstrip("\n")
    if not hooks or os.path.isabs(hooks) or (place / hooks).is_dir():
        return ()
    return ("-c", f"core.hooksPath={top / hooks}")


def _branch(tree: CheckoutTree) -> str:
    return os.fsdecode(git(tree.root, "symbolic-ref", "--quiet", "HEAD").stdout).strip()


def _move(tree: CheckoutTree, there: Linked, last: str, why: str) -> None:
    """Bring branch, index and files of ``tree`` to a commit; TreeError, and no change, if it cannot.

    UnfinishedError if git is killed, or its disk fails, in the middle.
    """
    top = Path(asked(tree.package, "rev-parse", "--show-toplevel"))
    base = there.base
    if asked(top, "rev-parse", "HEAD") != base or _branch(tree) != there.branch:
        raise TreeError(f"HEAD of {top} moved while patchkit was at work: nothing was changed; try again.")
    # The index of a checkout has times of its files, which a copy may bring up to date. Git looks into a file that
    # changed when its index was written, so that a copy has to be of the same time.
    index = asked(top, "rev-parse", "--path-format=absolute", "--git-path", "index")
    settings = {"GIT_INDEX_FILE": str(shutil.copy2(index, there.top.parent / "index"))}
    quietly(top, "update-index", "-q", "--refresh", settings=settings)
    tried = quietly(top, *OWN_FILES, "read-tree", "-n", "-m", "-u", base, last, settings=settings)
    if tried.returncode != 0:
        raise TreeError(
            f"what was committed cannot come to {top} ({said(tried)}): nothing was changed; commit or stash what "
            "is in the way, then try again."
        )
    _require_unedited(top, base, last)
    _require_free(top, base, last)
    _require_space(tree, top, base, last)
    alias = ("-c", f"alias.patchkit-move={_MOVE}")
    done = quietly(top, *OWN_FILES, *_FLUSHED, *alias, "patchkit-move", base, last, why, apart=True)
    if done.returncode not in (0, 2):
        raise UnfinishedError(
            f"git was stopped while it moved {top} ({said(done)})",
            advice=f"run patchkit apply --continue {tree.root}, which puts its files back",
        )
    if done.returncode != 0:
        raise TreeError(
            f"{top} could not be moved ({said(done)}): nothing was changed; fix the cause and try again."
        )


def _require_unedited(top: Path, base: str, last: str) -> None:
    """Raise TreeError if a file that differs between two commits is not as the first has it.

    Git looks at times, in seconds, and at sizes, and where flags of the index say so at nothing.
    """
    checkout = Checkout(top)
    listed = asked(top, "diff-tree", "-r", "-z", "--no-renames", "--diff-filter=a", base, last).split("\0")
    for meta, name in zip(listed[::2], listed[1::2], strict=False):
        old, _, identifier = meta.split()[:3]
        path = top / name
        if old == ":160000" or not os.path.lexists(path):
            continue
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        if checkout.is_content(identifier, content):
            continue
        # Where a filter makes files other than git keeps them, it has to say what they come to.
        filtered = quietly(top, "hash-object", f"--path={name}", str(path)).stdout.decode().strip()
        if filtered != identifier:
            raise TreeError(
                f"{path} has uncommitted changes, which the new commits would overwrite: nothing was changed; "
                "commit or stash them, then try again."
            )


def _require_free(top: Path, base: str, last: str) -> None:
    """Raise TreeError if something lies where a file comes to be, be it ignored, which git would overwrite."""
    for name in _differing(top, base, last, "--diff-filter=A"):
        path = top / name
        above = next(folder for folder in path.parents if os.path.lexists(folder))
        if os.path.lexists(path) or not above.is_dir():
            raise TreeError(
                f"{path if os.path.lexists(path) else above} is in the way of a file that was committed: nothing was "
                "changed; move it elsewhere and try again."
            )


def _require_space(tree: CheckoutTree, top: Path, base: str, last: str) -> None:
    """Raise OSError unless there is space for the files that differ between two commits."""
    differing = set(_differing(top, base, last))
    listed = (
        line.split("\t", 1) for line in asked(top, "ls-tree", "-r", "-l", "-z", last).split("\0") if line
    )
    sizes = [int(size) for meta, name in listed if name in differing and (size := meta.split()[3]) != "-"]
    with tempfile.TemporaryFile(dir=Store(tree.package).path) as reserve:
        if sizes and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(reserve.fileno(), 0, sum(sizes) + _BLOCK * len(sizes))


def _differing(top: Path, base: str, last: str, *options: str) -> list[str]:
    listed = asked(top, "diff-tree", "-r", "-z", "--no-renames", "--name-only", *options, base, last)
    return list(filter(None, listed.split("\0")))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put off what would end the process until the body has."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda got, _: came.append(got)) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None stands for one that is not Python's, which cannot be put back.
                signal.signal(number, handler)
        for came_in in came:
            signal.raise_signal(came_in)
