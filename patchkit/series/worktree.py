"""Make commits in a temporary linked worktree, and move the checkout to the last one in one step.

Until then the checkout's branch, index, files and ledger do not change; afterwards the worktree is removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError, TreeError, UnfinishedError
from patchkit.series.interrupted import undo_move
from patchkit.series.obstacles import is_folder, is_obstructed
from patchkit.series.plumbing import OWN_FILES, error_line, git_output, last_lines, run_git
from patchkit.transaction import adopt, byte_code
from patchkit.transaction.folder import Folder
from patchkit.transaction.store import Store
from patchkit.transaction.temporary import held, is_own, remove_abandoned
from patchkit.transaction.write import locked
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import git
from patchkit.tree.limits import NoFileError, TooLongError, read_whole
from patchkit.tree.tree import CheckoutTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PREFIX = "patchkit-commit-"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MAX_AMENDS = 5
_BLOCK = 4096
# Maintenance in the background would outlive the worktree.
_NO_MAINTENANCE = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
# By default git does not sync objects, so that after a crash a branch could lack its commit.
_FLUSHED = ("-c", "core.fsync=all")

# One process, so that it completes even if patchkit is killed. A dry run has found nothing in the way, so git fails
# only if the disk does or if a file was saved since. `undo` then restores the files that git wrote, and no other; git
# writes the index last.
_MOVE = r"""!move() {
    base=$1 last=$2 why=$3 hooks=$4
    git update-index -q --refresh
    git read-tree -m -u "$base" "$last"
    got=$?
    # A killed git leaves the lock of its index, which recover requires to be removed.
    [ $got -gt 128 ] && exit 3
    [ $got -ne 0 ] && exit 4
    # After a power cut, a branch at the new commit must have its files.
    git diff-tree -r -z --no-renames --name-only --diff-filter=d "$base" "$last" | xargs -0 sync -- 2>/dev/null
    # A person's reference-transaction hook may refuse to move the branch.
    git -c core.hooksPath="$hooks" update-ref -m "$why" HEAD "$last" "$base" && exit 0
    git read-tree -m -u "$last" "$base" || exit 3
    exit 2
}; move"""


class RefusedCommitError(PatchkitError):
    """git or a hook rejected a commit, and nothing was changed; ``reasons`` are the last lines that they printed."""

    is_quoting = True


@dataclass(frozen=True)
class LinkedWorktree:
    """A linked worktree at a commit of a checkout: its tree, its top folder, and the settings for git in it.

    ``base`` and ``branch`` are the checkout's HEAD when the worktree was made.
    """

    tree: CheckoutTree
    top: Path
    settings: tuple[str, ...]
    base: str
    branch: str

    @property
    def head(self) -> str:
        """The worktree's current commit."""
        return git_output(self.top, "rev-parse", "HEAD")

    def switch(self, commit: str) -> None:
        """Check out another commit."""
        git_output(self.top, *OWN_FILES, "checkout", "--quiet", "--detach", commit)

    def read_tree(self, tree: str) -> None:
        """Set the index and the files to those of a commit or tree; HEAD does not change."""
        git_output(self.top, *OWN_FILES, "read-tree", "--reset", "-u", tree)

    def add(self, files: Sequence[str]) -> None:
        """Add files of the package to the index."""
        run_git(self.tree.package, "update-index", "--no-assume-unchanged", *files)
        git_output(self.tree.package, "add", "--all", "--force", *files)

    def commit(self, files: Sequence[str], message: str) -> str:
        """Commit files of the package, as hooks change them, and return the commit's id."""
        self.add(files)
        return self.run_commit(message, "--cleanup=whitespace")

    def run_commit(self, message: str, *options: str) -> str:
        """Run git commit until hooks change no more files. Raise RefusedCommitError if they reject it.

        A formatter that runs as a hook rewrites files and either fails or succeeds: in both cases its result is
        committed.
        """
        unedited, start = adopt.unedited(self.tree), self.head
        # Linux refuses an argument of over 128 KiB.
        arguments, given = ("--file=-", *options), os.fsencode(message)
        try:
            for _ in range(_MAX_AMENDS):
                before = git_output(self.top, "write-tree")
                done = git(
                    self.top, *self.settings, "commit", "--quiet", *arguments, personal=True, given=given
                )
                git_output(self.top, "add", "--update", ".")
                after = git_output(self.top, "write-tree")
                if done.returncode == 0:
                    head, committed = git_output(self.top, "rev-parse", "HEAD", "HEAD^{tree}").split()
                    if head == start:
                        raise RefusedCommitError("git's hooks removed the commit", reasons=last_lines(done))
                    if after == committed:
                        return head
                    arguments, given = ("--amend", "--no-edit"), b""
                elif after == before:
                    raise RefusedCommitError("git refused the commit", reasons=last_lines(done))
        finally:
            if self.tree.package.is_dir():  # Otherwise a hook removed it, and an error is being raised.
                adopt.record_rewritten(self.tree, unedited)
        raise RefusedCommitError("git's hooks change files again at each commit", reasons=last_lines(done))


@contextmanager
def linked_worktree(tree: CheckoutTree, reason: str, head: str = "") -> Iterator[LinkedWorktree]:
    """Yield a linked worktree at the commit of ``tree``, and move ``tree`` to its commits at the end.

    If the body raises, if ``tree`` is not at the commit ``head`` (empty: any), or if it cannot be moved (TreeError),
    nothing changes. ``reason`` is the text for the reflog.
    """
    sweep(tree)
    with locked(tree) as store, _temporary(tree, head) as worktree:
        adopt.copy(tree, worktree.tree)
        try:
            yield worktree
        except RefusedCommitError as error:
            raise RefusedCommitError(
                f"{error.what}, so nothing was changed",
                reasons=error.reasons,
                advice="fix the cause and try again; hooks run in a separate worktree without untracked files",
            ) from None
        with _delayed_signals():
            # A patch whose edits are all made by another one has no commit.
            last = worktree.head
            adopt.adopt(
                tree, store, worktree.tree, (worktree.base, last), lambda: _move(tree, worktree, last, reason)
            )


def sweep(tree: CheckoutTree) -> None:
    """Remove the worktrees and temporary folders that a killed patchkit left in the repository of ``tree``."""
    listed = os.fsdecode(git(tree.root, "worktree", "list", "--porcelain").stdout).split("\n")
    paths = (Path(line.partition(" ")[2]) for line in listed if line.startswith("worktree "))
    own = {place.parent: place for place in paths if place.parent.name.startswith(_PREFIX)}
    # The folder of a patchkit that was killed early contains no worktree yet.
    with suppress(OSError):  # With all disks full, Python finds no temporary folder.
        for folder in Path(tempfile.gettempdir()).resolve().glob(f"{_PREFIX}*"):
            # Another user's folder may have pipes, devices or huge files in the place of what is read.
            if is_own(folder) and not _has_repository(folder):
                own.setdefault(folder, folder / tree.root.name)
    for folder, place in own.items():
        with suppress(OSError):
            if not folder.exists():
                _remove(tree, place)
            else:
                remove_abandoned(folder, partial(_remove, tree, place))


def _has_repository(folder: Path) -> bool:
    """Return whether the worktree in a temporary folder belongs to a repository that exists, whose sweep removes it."""
    for link in folder.glob("*/.git"):
        with suppress(OSError, NoFileError, TooLongError):
            if Path(os.fsdecode(read_whole(link)).removeprefix("gitdir: ").rstrip("\n")).exists():
                return True
    return False


@contextmanager
def _temporary(tree: CheckoutTree, expected: str) -> Iterator[LinkedWorktree]:
    top = Path(git_output(tree.package, "rev-parse", "--show-toplevel"))
    head, branch = git_output(tree.package, "rev-parse", "--verify", "HEAD^{commit}"), _branch(tree)
    if expected not in ("", head):
        raise _moved_error(top)
    with ExitStack() as stack:
        try:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
            place = folder / top.name
            stack.callback(_remove_for_good, tree, place)
            stack.enter_context(held(folder))
        except OSError as error:
            raise TreeError(
                str(error.strerror),
                where=error.filename or "TMPDIR",
                advice="nothing was changed; free some space there or set TMPDIR",
            ) from error
        # Files in LFS are not sources, and would be downloaded.
        environment = {"GIT_LFS_SKIP_SMUDGE": "1"}
        added = run_git(top, "worktree", "add", "--quiet", "--detach", str(place), head, settings=environment)
        if added.returncode != 0:
            raise TreeError(
                f"git worktree add failed in {place} ({error_line(added)})",
                advice="nothing was changed; fix the cause, or set TMPDIR to a folder with space for a checkout",
            )
        # A file can differ from its commit right after checkout, by its line ends: no hook has rewritten it.
        differing = run_git(place, "diff", "--name-only", "-z").stdout
        git(place, "update-index", "--assume-unchanged", "-z", "--stdin", given=differing)
        package = place / tree.package.relative_to(top)
        root = place / tree.root.relative_to(top) if tree.root.is_relative_to(top) else package.parent
        settings = (*_NO_MAINTENANCE, *_FLUSHED, *_hooks(top, place))
        yield LinkedWorktree(CheckoutTree(root, package), place, settings, head, branch)


def _remove_for_good(tree: CheckoutTree, place: Path) -> None:
    with _delayed_signals():
        _remove(tree, place)


def _remove(tree: CheckoutTree, place: Path) -> None:
    # `sweep` removes the rest.
    with suppress(TreeError):
        # A second --force removes a locked worktree, which a killed `git worktree add` leaves.
        git(tree.root, "worktree", "remove", "--force", "--force", str(place), new_session=True)
        shutil.rmtree(place.parent, ignore_errors=True)
    with suppress(TreeError):
        # A failed `git worktree add` leaves its entry.
        git(tree.root, "worktree", "prune", "--expire=never", new_session=True)


def _hooks(top: Path, place: Path) -> tuple[str, ...]:
    """Return the option that lets git find hooks in an untracked folder of the checkout."""
    named = git(top, "config", "--type=path", "core.hooksPath", personal=True).stdout
    hooks = os.fsdecode(named).rstrip("\n")
    if not hooks or os.path.isabs(hooks) or (place / hooks).is_dir():
        return ()
    return ("-c", f"core.hooksPath={top / hooks}")


def _moved_error(top: Path) -> TreeError:
    return TreeError(
        f"HEAD of {top} moved while patchkit was running", advice="nothing was changed; try again"
    )


def _branch(tree: CheckoutTree) -> str:
    return os.fsdecode(git(tree.root, "symbolic-ref", "--quiet", "HEAD").stdout).strip()


def _move(tree: CheckoutTree, worktree: LinkedWorktree, last: str, reason: str) -> None:
    """Move the branch, index and files of ``tree`` to a commit, or raise TreeError with nothing changed.

    Raise UnfinishedError if git is killed or its disk fails in between.
    """
    top = Path(git_output(tree.package, "rev-parse", "--show-toplevel"))
    base = worktree.base
    if git_output(top, "rev-parse", "HEAD") != base or _branch(tree) != worktree.branch:
        raise _moved_error(top)
    # The dry run refreshes a copy of the index. git compares the times of files with that of the index, so the copy
    # must keep it.
    index = git_output(top, "rev-parse", "--path-format=absolute", "--git-path", "index")
    settings = {"GIT_INDEX_FILE": str(shutil.copy2(index, worktree.top.parent / "index"))}
    run_git(top, "update-index", "-q", "--refresh", settings=settings)
    tried = run_git(top, *OWN_FILES, "read-tree", "-n", "-m", "-u", base, last, settings=settings)
    if tried.returncode != 0:
        raise TreeError(
            f"the commits cannot be checked out in {top} ({error_line(tried)})",
            advice="nothing was changed; commit or stash what is in the way, then try again",
        )
    changes = _changes(top, base, last)
    _require_unedited(top, changes)
    _require_free(top, changes)
    _require_space(tree, top, changes)
    alias = ("-c", f"alias.patchkit-move={_MOVE}")
    hooks = git(top, "rev-parse", "--path-format=absolute", "--git-path", "hooks", personal=True).stdout
    move = ("patchkit-move", base, last, reason, os.fsdecode(hooks).rstrip("\n"))
    done = run_git(top, *OWN_FILES, *_FLUSHED, *alias, *move, new_session=True)
    if done.returncode == 4:
        undo_move(tree, top, (base, last))
    elif done.returncode not in (0, 2):
        raise UnfinishedError(
            f"git was interrupted while it moved {top} ({error_line(done)})",
            advice=f"run patchkit apply --continue {tree.argument}, which restores its files",
        )
    if done.returncode != 0 and git_output(top, "rev-parse", "HEAD") != base:
        raise _moved_error(top)
    if done.returncode != 0:
        raise TreeError(
            f"{top} could not be moved ({error_line(done)})",
            advice="nothing was changed; fix the cause and try again",
        )
    with Folder.open(top) as folder:
        for name, change in changes.items():
            *above, own = name.split("/")
            # Nothing can be undone any more; verify reports byte code that is left.
            with suppress(OSError):
                if change.kind != "D":
                    with folder.open_path(tuple(above)) as place:
                        byte_code.discard(place, own)


@dataclass(frozen=True)
class _Change:
    """The difference of a file between two commits: git's letter, the mode before, and the object ids of both."""

    kind: str
    mode: str
    id: str
    new_id: str


def _changes(top: Path, base: str, last: str) -> dict[str, _Change]:
    """Return the files that differ between two commits."""
    listed = git_output(top, "diff-tree", "-r", "-z", "--no-renames", base, last).split("\0")
    pairs = ((name, meta.split()) for meta, name in zip(listed[::2], listed[1::2], strict=False))
    return {
        name: _Change(kind, mode.removeprefix(":"), old, new) for name, (mode, _, old, new, kind) in pairs
    }


def _require_unedited(top: Path, changes: Mapping[str, _Change]) -> None:
    """Raise TreeError if a file that differs between two commits is not as in the first one.

    git compares only times, in seconds, and sizes, and with some flags of the index nothing.
    """
    checkout = Checkout(top)
    for name, change in changes.items():
        path = top / name
        if change.kind == "A" or change.mode == "160000" or not os.path.lexists(path):
            continue
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        if checkout.is_content(change.id, content):
            continue
        # With a filter, the file's content differs from the object's.
        filtered = run_git(top, "hash-object", f"--path={name}", str(path)).stdout.decode().strip()
        if filtered != change.id:
            raise TreeError(
                f"{path} has uncommitted changes, which the new commits would overwrite",
                advice="nothing was changed; commit or stash them, then try again",
            )


def _require_free(top: Path, changes: Mapping[str, _Change]) -> None:
    """Raise TreeError if a file, even an ignored one, exists where a new file would be created.

    What git deletes first is not in the way.
    """
    deleted = frozenset(name for name, change in changes.items() if change.kind == "D")
    for name in (name for name, change in changes.items() if change.kind == "A"):
        path = top / name
        existing = next(folder for folder in path.parents if os.path.lexists(folder))
        if is_obstructed(top, name, deleted) or (os.path.lexists(path) and not is_folder(path)):
            raise TreeError(
                f"{path if os.path.lexists(path) else existing} is in the way of a committed file",
                advice="nothing was changed; move it elsewhere and try again",
            )


def _require_space(tree: CheckoutTree, top: Path, changes: Mapping[str, _Change]) -> None:
    """Raise OSError if the disk has no space for the files that differ between two commits.

    Objects that a partial clone lacks are not fetched for it, and not counted.
    """
    wanted = "".join(f"{change.new_id}\n" for change in changes.values() if change.kind != "D").encode()
    listed = git(top, "cat-file", "--batch-check=%(objectsize)", given=wanted)
    sizes = [int(size) for size in listed.stdout.decode().splitlines() if size.isdigit()]
    with tempfile.TemporaryFile(dir=Store(tree.package).path) as reserve:
        if sizes and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(reserve.fileno(), 0, sum(sizes) + _BLOCK * len(sizes))


@contextmanager
def _delayed_signals() -> Iterator[None]:
    """Delay signals that would end the process until the body is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {each: signal.signal(each, lambda number, _: received.append(number)) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            if handler is not None:  # None: not installed from Python, and cannot be restored.
                signal.signal(each, handler)
        for number in received:
            signal.raise_signal(number)
