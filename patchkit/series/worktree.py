"""Make commits in a temporary linked worktree, and move the checkout to the last one in one step.

Until then the checkout's branch, index, files and record do not change; afterwards the worktree is removed.
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
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError, TreeError
from patchkit.plan import record
from patchkit.plan.record import AppliedFile, Record, files_of
from patchkit.series.move import CheckoutMove, branch_of, moved_error
from patchkit.series.plumbing import FLUSHED, OWN_FILES, error_line, git_output, last_lines, run_git
from patchkit.transaction.current import current_record, unedited
from patchkit.transaction.swap import digest_or_none
from patchkit.transaction.temporary import held, is_own, remove_abandoned
from patchkit.transaction.write import locked, record_path, write_all
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import git, is_set
from patchkit.tree.limits import read_whole
from patchkit.tree.tree import CheckoutTree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.transaction.store import Store
    from patchkit.tree.tree import Contents

_PREFIX = "patchkit-commit-"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MAX_AMENDS = 5


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
        """Add files of the package, and the record, to the index."""
        named = str(record_path(self.tree).relative_to(self.top))
        if os.path.exists(self.top / named) or Checkout(self.top).staged([named]):
            git_output(self.top, "add", "--all", "--force", named)
        if files:
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
        written, start = unedited(self.tree), self.head
        # Linux refuses an argument of over 128 KiB.
        arguments, given = ("--file=-", *options), os.fsencode(message)
        for _ in range(_MAX_AMENDS):
            before = git_output(self.top, "write-tree")
            done = git(self.top, *self.settings, "commit", "--quiet", *arguments, personal=True, given=given)
            if self.tree.package.is_dir():  # Otherwise a hook removed it.
                written = self._record_rewritten(written)
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
        raise RefusedCommitError("git's hooks change files again at each commit", reasons=last_lines(done))

    def _record_rewritten(self, written: Contents) -> dict[str, bytes | None]:
        """Record what a hook made of files that patchkit has ``written``, and return their contents."""
        current = {file: self.tree.read(file) for file in written}
        changed = {
            file: AppliedFile(digest_or_none(text), digest_or_none(current[file]), ())
            for file, text in written.items()
            if text != current[file]
        }
        if changed:
            with locked(self.tree) as store:
                after = record.read(self.tree).with_applied(changed, ())
                write_all(self.tree, store, {}, after, kept=[text for text in current.values() if text])
        return current


@contextmanager
def linked_worktree(tree: CheckoutTree, reason: str, head: str = "") -> Iterator[LinkedWorktree]:
    """Yield a linked worktree at the commit of ``tree``, and move ``tree`` to its commits at the end.

    If the body raises, if ``tree`` is not at the commit ``head`` (empty: any), or if it cannot be moved (TreeError),
    nothing changes. ``reason`` is the text for the reflog.
    """
    sweep(tree)
    with locked(tree) as store, _temporary(tree, head) as worktree:
        base = record.read(worktree.tree)
        _lend(store, worktree, base)
        try:
            yield worktree
        except RefusedCommitError as error:
            raise RefusedCommitError(
                f"{error.what}, so nothing was changed",
                reasons=error.reasons,
                advice="fix the cause and try again; hooks run in a separate worktree without untracked files",
            ) from None
        with _delayed_signals():
            _finish(tree, store, worktree, reason, base)


def _lend(store: Store, worktree: LinkedWorktree, base: Record) -> None:
    """Give a worktree those contents of the record at its commit that git lacks and the checkout has."""
    lacking = Checkout(worktree.top).lacking(base.contents)
    contents = [store.get(digest) for digest in sorted(lacking) if store.has(digest)]
    if contents:
        with locked(worktree.tree) as own:
            for content in contents:
                own.put(content)


def _finish(tree: CheckoutTree, store: Store, worktree: LinkedWorktree, reason: str, base: Record) -> None:
    """Move ``tree`` to the worktree's commit, with its record and with what ``tree`` has beyond that of ``base``."""
    made = record.read(worktree.tree)
    items = [item for layer in (*base.layers, *made.layers) for item in layer.files.items()]
    layers = (
        layer.with_files(dict(item for item in layer.files.items() if item not in items))
        for layer in current_record(tree).layers
    )
    others = [layer for layer in layers if layer.files]
    after = made.replaced(Record((*made.layers, *others)))
    # A patch whose edits are all made by another one has no commit.
    if worktree.head != worktree.base:
        commits = (worktree.base, worktree.head)
        move = CheckoutMove(tree, commits, worktree.branch, reason, scratch=worktree.top.parent)
        move.write(store, worktree.top, files_of(after) if others else worktree.tree.record())
    # The commits may leave the record as it was, and what is not committed may not.
    if others or worktree.head == worktree.base:
        write_all(tree, store, {}, after)


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
        with suppress(OSError):
            if Path(os.fsdecode(read_whole(link)).removeprefix("gitdir: ").rstrip("\n")).exists():
                return True
    return False


@contextmanager
def _temporary(tree: CheckoutTree, expected: str) -> Iterator[LinkedWorktree]:
    top = Path(git_output(tree.package, "rev-parse", "--show-toplevel"))
    head, branch = git_output(tree.package, "rev-parse", "--verify", "HEAD^{commit}"), branch_of(tree.root)
    if expected not in ("", head):
        raise moved_error(top)
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
        _include(place, record_path(tree).relative_to(top))
        # A file can differ from its commit right after checkout, by its line ends: no hook has rewritten it.
        differing = run_git(place, "diff", "--name-only", "-z").stdout
        git(place, "update-index", "--assume-unchanged", "-z", "--stdin", given=differing)
        package = place / tree.package.relative_to(top)
        root = place / tree.root.relative_to(top) if tree.root.is_relative_to(top) else package.parent
        settings = (*FLUSHED, *_hooks(top, place))
        yield LinkedWorktree(CheckoutTree(root, package), place, settings, head, branch)


def _include(place: Path, folder: PurePath) -> None:
    """Check out a folder in a worktree that is sparse as its checkout is."""
    named = Path(
        git_output(place, "rev-parse", "--path-format=absolute", "--git-path", "info/sparse-checkout")
    )
    if is_set(place, "core.sparseCheckout") and named.is_file():
        with named.open("a") as patterns:
            patterns.write(f"/{folder.as_posix()}/\n")
        git_output(place, *OWN_FILES, "read-tree", "-m", "-u", "HEAD")


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


@contextmanager
def _delayed_signals() -> Iterator[None]:
    """Delay signals that would end the process until the body is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: received.append(number)) for number in _SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # None: not installed from Python, and cannot be restored.
                signal.signal(number, handler)
        for signalled in received:
            signal.raise_signal(signalled)
