"""Move a checkout to another commit: files, branch and index, or none of them, and lose no edit of a person.

The files are exchanged one by one, as in any write, while the index is locked. The branch moves after the last file,
and the new index, made beforehand, takes the place of the old one. A move that was killed is taken back if the branch
is at the old commit, and finished otherwise.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from patchkit.errors import TreeError, UnfinishedError
from patchkit.series.obstacles import is_folder, is_obstructed
from patchkit.series.plumbing import FLUSHED, OWN_FILES, error_line, git_output, run_git
from patchkit.transaction.recover import Recovery, require_undoable
from patchkit.transaction.store import Store
from patchkit.transaction.swap import FileKind, digest_of
from patchkit.transaction.write import (
    Place,
    Targets,
    Write,
    clean_up,
    locked,
    record_path,
    wrapped_os_errors,
    write_targets,
)
from patchkit.tree.checkout import is_object
from patchkit.tree.fork import OWN_FOLDER, is_recorded
from patchkit.tree.git import RawChange, git, is_set, raw_changes, top_around
from patchkit.tree.limits import MAX_READ_BYTES, read_whole
from patchkit.tree.modes import LINK, PROGRAM, SUBMODULE
from patchkit.tree.outside import keeps_modes
from patchkit.tree.tree import CheckoutTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from patchkit.transaction.swap import Swap

_ATTRIBUTES = ".gitattributes"


class ChangedFile(RawChange):
    """A file that differs between two commits."""

    def exists(self, side: int) -> bool:
        """Return whether a commit has the file."""
        return bool(self.ids[side].strip("0"))

    @property
    def place(self) -> Place:
        """Its place below the top of the checkout."""
        *folders, name = self.name.split("/")
        return Place(tuple(folders), name)


class CheckoutMove:
    """The move of a checkout from a commit to another; files are named by their number in ``differing``.

    ``branch`` is the one that moves, empty for a detached HEAD, ``reason`` is the text for its reflog, and
    ``scratch`` is the folder for temporary files.
    """

    def __init__(
        self,
        tree: CheckoutTree,
        commits: tuple[str, str],
        branch: str = "",
        reason: str = "",
        *,
        scratch: Path | None = None,
    ) -> None:
        self.tree = tree
        self.top = Path(git_output(tree.package, "rev-parse", "--show-toplevel"))
        self.base, self.last = commits
        self.branch = branch
        self.reason = reason
        self._scratch = scratch
        self._index = Path(git_output(self.top, "rev-parse", "--path-format=absolute", "--git-path", "index"))
        self._stack = ExitStack()

    @cached_property
    def differing(self) -> dict[str, ChangedFile]:
        """Everything that differs between the commits."""
        listed = git_output(self.top, "diff-tree", "-r", "-z", "--no-renames", self.base, self.last)
        changes = raw_changes(os.fsencode(listed))
        return {str(number): ChangedFile(*change) for number, change in enumerate(changes)}

    @cached_property
    def kinds(self) -> dict[str, tuple[FileKind, FileKind]]:
        """The kinds of each file before and after, as the file system and git's settings have them."""
        named = {LINK: (FileKind.LINK, "core.symlinks"), PROGRAM: (FileKind.EXECUTABLE, "core.fileMode")}
        of_mode = {mode: kind for mode, (kind, key) in named.items() if is_set(self.top, key, default=True)}
        return {
            number: (of_mode.get(file.modes[0], FileKind.PLAIN), of_mode.get(file.modes[1], FileKind.PLAIN))
            for number, file in self.differing.items()
        }

    @property
    def places(self) -> dict[str, Place]:
        """The place of each file."""
        return {number: file.place for number, file in self.differing.items()}

    def made(self, numbers: Iterable[str]) -> tuple[str, ...]:
        """Return the folders that the new commit needs for files; of a submodule the folder itself."""
        folders = {
            folder: None
            for number, file in self.differing.items()
            if file.exists(1)
            for folder in (
                (*file.place.above, file.name)
                if file.modes[1] == SUBMODULE
                else file.place.above
                if number in numbers
                else ()
            )
        }
        return tuple(folders)

    def emptied(self, numbers: Iterable[str]) -> tuple[str, ...]:
        """Return the folders of files that only the old commit has."""
        removed = (self.differing[number] for number in numbers if not self.differing[number].exists(1))
        return tuple({folder: None for file in removed for folder in file.place.above})

    def content(self, number: str, side: int, attributes: Path | None = None) -> bytes:
        """Return the content that git checks out for one side. Raise TreeError if a filter fails.

        ``attributes`` is a checkout whose attributes decide, by default that which moves.
        """
        file, commit = self.differing[number], (self.base, self.last)[side]
        if file.modes[side] == LINK:
            done = run_git(self.top, "cat-file", "blob", file.ids[side])
        else:
            where: tuple[str, ...] = ()
            if attributes:
                folder = git_output(self.top, "rev-parse", "--absolute-git-dir")
                where = (f"--git-dir={folder}", f"--work-tree={attributes}")
            words = ("cat-file", "--filters", f"{commit}:{file.name}")
            done = run_git(attributes or self.top, *where, *words)
        if done.returncode or len(done.stdout) > MAX_READ_BYTES:
            reason = error_line(done) if done.returncode else f"it has more than {MAX_READ_BYTES} bytes"
            raise TreeError(
                f"{self.top / file.name} could not be moved to {commit[:12]} ({reason})",
                advice="nothing was changed; fix the cause and try again",
            )
        return done.stdout

    # ---- the index and the branch ----------------------------------------------------------------------------------

    @property
    def _lock(self) -> Path:
        return self._index.with_name("index.lock")

    @property
    def _next_index(self) -> Path:
        return self._index.with_name("index.patchkit")

    @property
    def _mark(self) -> bytes:
        """The content of the index's lock while patchkit has it."""
        return f"patchkit {self.base} {self.last}\n".encode()

    @property
    def is_index_locked(self) -> bool:
        """Whether a patchkit that was killed left the lock of the index."""
        try:
            return read_whole(self._lock) == self._mark
        except OSError:
            return False

    def require_index(self, advice: str) -> None:
        """Raise TreeError if another program has locked the index."""
        if os.path.lexists(self._lock) and not self.is_index_locked:
            raise TreeError(f"{self._lock} exists", advice=f"if no other git is running, remove it; {advice}")

    def begin(self) -> None:
        """Lock the index and make the new one. Raise TreeError if another program has it, or HEAD is elsewhere."""
        try:
            handle = os.open(self._lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise TreeError(
                f"another git process is running in {self.top}",
                advice="nothing was changed; wait for it (or remove index.lock), then try again",
            ) from None
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(self._mark)
        except BaseException:
            self._lock.unlink(missing_ok=True)
            raise
        self._require_head()
        self._make_index()

    def _require_head(self) -> None:
        """Raise TreeError if HEAD is elsewhere."""
        if (git_output(self.top, "rev-parse", "HEAD"), branch_of(self.top)) != (self.base, self.branch):
            raise moved_error(self.top)

    def _make_index(self) -> None:
        """Make the index of the new commit from a copy. Raise TreeError if it has changes that are in the way."""
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(dir=self._scratch)))
        # git compares the times of files with that of the index.
        self._copy = Path(shutil.copy2(self._index, folder / "index"))
        refused = self._read_tree(self.base, self.last, {"GIT_INDEX_FILE": str(self._copy)})
        if refused:
            raise TreeError(
                f"the commits cannot be checked out in {self.top} ({refused})",
                advice="nothing was changed; commit or stash what is in the way, then try again",
            )

    def _read_tree(self, old: str, new: str, settings: Mapping[str, str]) -> str:
        """Move an index from one commit to another; return git's message if it has changes that are in the way."""
        words: tuple[str, ...] = ("-i",)
        is_sparse = is_set(self.top, "core.sparseCheckout")
        elsewhere: dict[str, str] = {}
        if is_sparse:
            # Only a git that writes files, here to nowhere, leaves out those that the sparse checkout does not have.
            nowhere = Path(self._stack.enter_context(tempfile.TemporaryDirectory(dir=self._scratch)))
            words = ("-u",)
            elsewhere = {"GIT_WORK_TREE": str(nowhere), "GIT_LFS_SKIP_SMUDGE": "1"}
        named = {**settings, **elsewhere}
        done = run_git(self.top, *OWN_FILES, "read-tree", *words, "-m", old, new, settings=named)
        if is_sparse:
            # The record is there whatever the sparse checkout has.
            folder = os.fsencode(os.path.relpath(record_path(self.tree), self.top)) + b"/"
            listed = run_git(self.top, "ls-files", "-z", settings=settings).stdout.split(b"\0")
            names = b"\0".join(name for name in listed if name.startswith(folder))
            there = ("update-index", "--no-skip-worktree", "-z", "--stdin")
            run_git(self.top, *there, settings=settings, given=names)
        return error_line(done) if done.returncode else ""

    def _left_out(self) -> frozenset[str]:
        """Return the files that a sparse checkout does not have, and those that a person took out of the index.

        The old index and the new one decide. A move changes in the index only what the new commit has no more.
        """
        self._make_index()
        settings: list[dict[str, str]] = [{}, {"GIT_INDEX_FILE": str(self._copy)}]
        listed = (
            run_git(self.top, "ls-files", "-v", "-z", settings=settings_of).stdout for settings_of in settings
        )
        old, new = (
            {
                name: flag
                for flag, _, name in (os.fsdecode(line).partition(" ") for line in lines.split(b"\0"))
            }
            for lines in listed
        )
        sparse = (name for flags in (old, new) for name, flag in flags.items() if flag in ("S", "s"))
        untracked = (file.name for file in self.differing.values() if file.exists(0) and file.name not in old)
        return frozenset((*sparse, *untracked))

    def complete(self) -> None:
        """Move the branch, then the index. Raise TreeError if git or a hook refuses, with neither changed."""
        settings = {"GIT_INDEX_FILE": str(self._copy)}
        run_git(self.top, "update-index", "-q", "--refresh", settings=settings)
        shutil.copyfile(self._copy, self._next_index)
        shutil.copymode(self._index, self._next_index)
        with open(self._next_index, "rb") as file:
            os.fsync(file.fileno())
        # A hook may refuse that a branch moves, as it does for git itself.
        words = (*FLUSHED, "update-ref", "-m", self.reason, "HEAD", self.last, self.base)
        done = git(self.top, *words, personal=True, new_session=True)
        try:
            head = git_output(self.top, "rev-parse", "HEAD")
        except BaseException as error:
            raise UnfinishedError(
                f"git failed in {self.top} after the branch was moved",
                advice="run patchkit apply --continue",
            ) from error
        if done.returncode and head not in (self.base, self.last):
            raise moved_error(self.top)
        if head == self.base:
            raise TreeError(
                f"{self.top} could not be moved ({error_line(done)})",
                advice="nothing was changed; fix the cause and try again",
            )
        try:
            os.replace(self._next_index, self._index)
        except OSError as error:
            raise UnfinishedError(
                f"{self._index} could not be written ({error.strerror})",
                advice="everything is committed; run patchkit apply --continue",
            ) from error

    def follow(self, head: str) -> None:
        """Let the index follow the branch after a move was interrupted, unless a person has changed it since."""
        if head == self.last:
            self._read_tree(self.base, self.last, {})
        elif head == self.base:
            self._read_tree(self.last, self.base, {})
        run_git(self.top, "update-index", "-q", "--refresh")

    def keep(self) -> None:
        """Keep the new commit until ``forget``, also from a git gc after a kill."""
        git_output(self.top, *FLUSHED, "update-ref", _kept_ref(self.tree), self.last)

    def forget(self) -> None:
        """Keep the new commit no more."""
        _forget(self.tree)

    def end(self) -> None:
        """Unlock the index, also after a patchkit that was killed."""
        self._stack.close()
        if self.is_index_locked:
            with suppress(FileNotFoundError):
                self._next_index.unlink()
            self._lock.unlink()

    # ---- the files -------------------------------------------------------------------------------------------------

    def targets(self, attributes: Path, record: Mapping[str, bytes]) -> Targets:
        """Return the targets of the move. Raise TreeError if one was changed, or something is in the way.

        ``attributes`` is a checkout of the new commit. The tree's ``record`` after it can have what is not committed.
        """
        left_out = self._left_out()
        self._require_apart()
        for file in self.differing.values():
            if SUBMODULE in file.modes and file.exists(0) and file.exists(1) and len(set(file.modes)) > 1:
                raise TreeError(
                    f"{self.top / file.name} is a submodule in one of the commits and a file in the other",
                    advice="nothing was changed; make that change with git merge, then try again",
                )
        written = {
            number: file
            for number, file in self.differing.items()
            if SUBMODULE not in file.modes and file.name not in left_out
        }
        folder, recorded_before = (
            record_path(self.tree),
            CheckoutTree(self.tree.root, self.tree.package).record(),
        )
        recorded = {
            number: file.place.name
            for number, file in written.items()
            if (self.top / file.name).parent == folder and is_recorded(file.place.name)
        }
        is_other = any(PurePosixPath(file.name).name == _ATTRIBUTES for file in written.values())
        contents: dict[str, tuple[bytes | None, bytes | None]] = {}
        self._require_free([file for number, file in written.items() if number not in recorded])
        for number, file in written.items():
            if number in recorded:
                contents[number] = (recorded_before.get(recorded[number]), record.get(recorded[number]))
                continue
            before = self._unedited(number) if file.exists(0) else None
            after = self.content(number, 1, attributes if is_other else None) if file.exists(1) else None
            contents[number] = (before, after)
        missing = [folder for folder in self.made(contents) if not is_folder(self.top / folder)]
        return Targets(contents, self.places, tuple(missing))

    def write(self, store: Store, attributes: Path, record: Mapping[str, bytes]) -> None:
        """Move the checkout with its ``record``, with the lock held, or raise TreeError with nothing changed.

        ``attributes`` is a checkout of the new commit. Raise UnfinishedError if the system refuses when the branch has
        moved, or before what was written is restored.
        """
        with wrapped_os_errors(self.tree), self._stack:
            try:
                targets = self.targets(attributes, record)
            except TreeError:
                self._require_head()  # What a person has committed meanwhile is not in the way.
                raise
        emptied = self.emptied(targets.contents)
        write_targets(self.tree, store, targets, emptied=emptied, move=self)

    def _require_apart(self) -> None:
        """Raise TreeError if two names of files are one to the file system."""
        if not is_set(self.top, "core.ignoreCase"):
            return
        names: dict[str, str] = {}
        for file in self.differing.values():
            other = names.setdefault(file.name.casefold(), file.name)
            if other != file.name:
                raise TreeError(
                    f"{self.top / other} and {self.top / file.name} are one file on this file system",
                    advice="nothing was changed; make that change with git merge, then try again",
                )

    def _require_free(self, files: Iterable[ChangedFile]) -> None:
        """Raise TreeError if a file, even an ignored one, exists where a new file would be created."""
        deleted = frozenset(file.name for file in files if not file.exists(1))
        for file in files:
            path = self.top / file.name
            if path.is_relative_to(self.tree.package / OWN_FOLDER):
                raise TreeError(
                    f"{path} is in the new commits", advice="remove patchkit's own folder from them"
                )
            if not file.exists(0) and (
                is_obstructed(self.top, file.name, deleted) or (os.path.lexists(path) and not is_folder(path))
            ):
                existing = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
                raise TreeError(
                    f"{existing} is in the way of a committed file",
                    advice="nothing was changed; move it elsewhere and try again",
                )

    def _unedited(self, number: str) -> bytes:
        """Return the content of a file that is as in the old commit. Raise TreeError if it is not.

        git compares only times, in seconds, and sizes, and with some flags of the index nothing. It also ignores what
        its filters take out of a file, such as line ends.
        """
        file, (kind, _) = self.differing[number], self.kinds[number]
        path, ignored = self.top / file.name, False
        with suppress(OSError):
            status = path.lstat()
            content = os.readlink(os.fsencode(path)) if path.is_symlink() else read_whole(path)
            is_program = bool(status.st_mode & 0o100)
            is_same = path.is_symlink() is (kind is FileKind.LINK) and (
                kind is FileKind.LINK
                or not keeps_modes(self.tree)
                or is_program is (kind is FileKind.EXECUTABLE)
            )
            is_in_place = all(is_folder(self.top / folder) for folder in file.place.above)
            if is_same and is_in_place:
                if is_object(file.ids[0], content) or content == self.content(number, 0):
                    return content
                cleaned = run_git(self.top, "hash-object", f"--path={file.name}", str(path)).stdout
                ignored = cleaned.decode().strip() == file.ids[0]
        if ignored:
            again = f"rm {shlex.quote(str(path))} && git checkout -- {shlex.quote(str(path))}"
            raise TreeError(
                f"{path} has other line ends, or another difference that git does not show, than git checks out",
                advice=f"nothing was changed; save your version elsewhere, {again}, then try again",
            )
        raise TreeError(
            f"{path} has uncommitted changes, which the new commits would overwrite",
            advice="nothing was changed; commit or stash them, then try again",
        )

    def stored(self, number: str, digest: str) -> bytes:
        """Return the content that ``_unedited`` accepted, by its digest. Raise TreeError if git cannot make it."""
        kind = self.kinds[number][0]
        text = self.content(number, 0)
        if digest_of(text, kind) != digest:
            text = run_git(self.top, "cat-file", "blob", self.differing[number].ids[0]).stdout
        if digest_of(text, kind) == digest:
            return text
        name = self.differing[number].name
        raise TreeError(
            f"{self.top / name} cannot be restored as it was",
            advice=f"git checkout HEAD -- {name}, {_retry(self.tree)}",
        )


def restore(tree: CheckoutTree, *, roll_back: bool = False) -> Recovery | None:
    """Take back an interrupted move if its branch did not move, else finish it; return None if none was interrupted.

    Raise TreeError, with nothing changed, if one of the files was changed since, if another program has locked the
    index, or with ``roll_back`` if the branch has moved.
    """
    with Store(tree.package).opened() as folder:
        if folder is None:
            return None
    with locked(tree, recovering=True) as store:
        journal = store.journal()
        if journal is None:
            # A move may have been killed before its journal was written.
            _forget(tree)
        if journal is None or not isinstance(journal.move, tuple):
            return None
        interrupted = CheckoutMove(tree, journal.move)
        interrupted.require_index(_retry(tree))
        head = git_output(interrupted.top, "rev-parse", "HEAD")
        is_moved = head != interrupted.base
        if is_moved and not _has_moved(interrupted, head):
            raise TreeError(
                f"{interrupted.top} is at {head[:12]}, but the write began at {interrupted.base[:12]}",
                advice=f"git checkout --detach {interrupted.base}, {_retry(tree)}, then switch back",
            )
        if is_moved and roll_back:
            raise TreeError(
                f"{interrupted.top} has moved to {head[:12]}",
                advice=f"patchkit apply --continue {tree.argument}, then git reset --keep {interrupted.base}",
            )
        numbers = {digests[0]: number for number, digests in journal.files.items()}
        made, emptied = interrupted.made(journal.files), interrupted.emptied(journal.files)
        current = msgspec.structs.replace(journal, made=made, emptied=emptied)
        with ExitStack() as stack:
            with wrapped_os_errors(tree, f"nothing was changed; fix the cause, {_retry(tree)}"):
                write = stack.enter_context(
                    Write(
                        tree,
                        store,
                        current,
                        interrupted.places,
                        lambda digest: interrupted.stored(numbers[digest], digest),
                        move=interrupted,
                    )
                )
                if is_moved:
                    for swap in write.swaps:
                        swap.require_unsaved()
                else:
                    require_undoable(write.reachable, partial(_changed_error, interrupted))
            with wrapped_os_errors(tree, f"fix the cause, {_retry(tree)}", UnfinishedError):
                was_locked = interrupted.is_index_locked
                if not is_moved:
                    write.undo()
                interrupted.end()
                if not was_locked or is_moved:
                    interrupted.follow(head)
                if is_moved:
                    clean_up(write)
                else:
                    write.end()
    return Recovery(
        "finished" if is_moved else "rolled-back", tuple(f.name for f in interrupted.differing.values())
    )


def _has_moved(interrupted: CheckoutMove, head: str) -> bool:
    """Return whether HEAD was at the new commit, on which a person may have gone on, or which they may have amended."""
    words = ("merge-base", "--is-ancestor", interrupted.last, head)
    if run_git(interrupted.top, *words).returncode == 0:
        return True
    since = takewhile(
        lambda name: name != interrupted.base,
        git_output(interrupted.top, "log", "-g", "--format=%H", "HEAD").split(),
    )
    return interrupted.last in since


def _kept_ref(tree: CheckoutTree) -> str:
    """Return the ref that keeps the new commit of a move. A ref of one worktree is no hindrance to git gc in others."""
    return f"refs/patchkit-move-{digest_of(os.fsencode(tree.package))[:16]}"


def _forget(tree: CheckoutTree) -> None:
    # The next move removes what is left.
    if top_around(tree.package):
        with suppress(TreeError):
            run_git(tree.package, "update-ref", "-d", _kept_ref(tree))


def _retry(tree: CheckoutTree) -> str:
    return f"then run patchkit apply --continue {tree.argument} again"


def _changed_error(interrupted: CheckoutMove, swap: Swap) -> TreeError | None:
    """Return the error for a file that a person changed since, None for a folder of the other commit's files."""
    file = interrupted.differing[swap.file]
    path = interrupted.top / file.name
    own = frozenset(file.name for file in interrupted.differing.values())
    # One commit may have a file where the other has a folder.
    if is_folder(path) and not is_obstructed(interrupted.top, file.name, own):
        return None
    back = f"git checkout HEAD -- {file.name}" if file.exists(0) else "remove it"
    return TreeError(
        f"{path} was changed after the write was interrupted",
        advice=f"save your version elsewhere, {back}, {_retry(interrupted.tree)}",
    )


def branch_of(top: Path) -> str:
    """Return the full name of the current branch, empty if HEAD is detached."""
    return os.fsdecode(git(top, "symbolic-ref", "--quiet", "HEAD").stdout).strip()


def moved_error(top: Path) -> TreeError:
    """Return the error for a checkout whose HEAD another program moved."""
    return TreeError(
        f"HEAD of {top} moved while patchkit was running", advice="nothing was changed; try again"
    )
