"""Restore a checkout whose move to another commit was interrupted before its branch moved.

git writes the files one by one and updates the branch last. While the branch is at the old commit, each file that
differs between the commits has its old or its new content, a part of it, or does not exist.
"""

from __future__ import annotations

import enum
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET

from patchkit.errors import TreeError, UnfinishedError
from patchkit.series.obstacles import is_obstructed
from patchkit.series.plumbing import OWN_FILES, error_line, git_output, run_git
from patchkit.transaction.folder import Folder
from patchkit.transaction.recover import Recovery
from patchkit.transaction.store import Store
from patchkit.transaction.write import locked, wrapped_os_errors
from patchkit.tree.checkout import Checkout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from patchkit.tree.tree import CheckoutTree

_BATCH = 200
_SUBMODULE, _LINK = "160000", "120000"


class _Content(enum.Enum):
    OLD = "old"
    NEW = "new or a piece"
    OTHER = "other"


@dataclass(frozen=True)
class _File:
    """A file that differs between two commits, with its mode and object id in each, zeros if it does not exist."""

    name: str
    modes: tuple[str, str]
    ids: tuple[str, str]

    @property
    def is_old(self) -> bool:
        """Whether the file exists in the first commit."""
        return bool(self.ids[0].strip("0"))


def restore(tree: CheckoutTree) -> Recovery | None:
    """Restore ``tree`` after an interrupted move; return None if no move was interrupted before the branch moved.

    Raise TreeError, with nothing changed, if one of the files was changed since, or if the index is locked.
    """
    if not _has_move(Store(tree.package)):
        return None
    with locked(tree, recovering=True) as store:
        journal = store.journal()
        if journal is None or journal.move is UNSET:
            return None
        top = Path(git_output(tree.package, "rev-parse", "--show-toplevel"))
        base, last = journal.move
        if git_output(top, "rev-parse", "HEAD") != base:
            return None
        _require_no_lock(tree, top)
        excluded = _sparse_excluded(top)
        states = _contents(top, journal.move, excluded)
        for file, state in states.items():
            if state is _Content.OTHER:
                raise TreeError(
                    f"{top / file.name} was changed after git was interrupted",
                    advice=f"save your version elsewhere, git checkout HEAD -- {file.name} (or remove it if HEAD has "
                    f"none), {_retry(tree)}",
                )
        written = [file for file, state in states.items() if state is _Content.NEW]
        with wrapped_os_errors(tree, f"fix the cause, {_retry(tree)}", UnfinishedError):
            _restore(tree, top, list(_files(top, base, last)), written, excluded)
            store.unstage()
            store.end()
    return Recovery("rolled-back", tuple(file.name for file in written))


def undo_move(tree: CheckoutTree, top: Path, commits: tuple[str, str]) -> None:
    """Restore the files that git wrote before it failed, if any; a file that was saved since is kept.

    The index and the branch are as they were. Raise UnfinishedError if the system refuses.
    """
    states = _contents(top, commits, _sparse_excluded(top))
    with (
        wrapped_os_errors(tree, f"fix the cause, {_retry(tree)}", UnfinishedError),
        Folder.open(top) as opened,
    ):
        for file, state in states.items():
            if state is not _Content.OTHER and not file.is_old:
                _remove(opened, tuple(file.name.split("/")))
        old = _names(file for file, state in states.items() if state is _Content.NEW and file.is_old)
        _index(tree, top, ("checkout-index", "--quiet", "--force"), old)


def _has_move(store: Store) -> bool:
    journal = store.journal()
    return journal is not None and journal.move is not UNSET


def _retry(tree: CheckoutTree) -> str:
    return f"then run patchkit apply --continue {tree.argument} again"


def _require_no_lock(tree: CheckoutTree, top: Path) -> None:
    lock = Path(git_output(top, "rev-parse", "--path-format=absolute", "--git-path", "index.lock"))
    if lock.exists():
        raise TreeError(f"{lock} exists", advice=f"if no other git is running, remove it; {_retry(tree)}")


def _files(top: Path, base: str, last: str) -> Iterator[_File]:
    listed = git_output(top, "diff-tree", "-r", "-z", "--no-renames", base, last).split("\0")
    for meta, name in zip(listed[::2], listed[1::2], strict=False):
        old_mode, new_mode, old, new, _ = meta.removeprefix(":").split()
        if _SUBMODULE not in (old_mode, new_mode):
            yield _File(name, (old_mode, new_mode), (old, new))


def _sparse_excluded(top: Path) -> frozenset[str]:
    """Return the files that a sparse checkout excludes."""
    listed = git_output(top, "ls-files", "-v", "-z").split("\0")
    return frozenset(name for flag, _, name in (line.partition(" ") for line in listed) if flag in ("S", "s"))


def _contents(top: Path, commits: tuple[str, str], excluded: frozenset[str]) -> dict[_File, _Content]:
    """Return what each file that differs between the commits contains, except those in ``excluded``."""
    files = list(_files(top, *commits))
    added = frozenset(file.name for file in files if file.ids[1].strip("0"))
    return {file: _state_of(top, file, commits, added) for file in files if file.name not in excluded}


def _state_of(top: Path, file: _File, commits: tuple[str, str], added: frozenset[str]) -> _Content:
    if is_obstructed(top, file.name, added):
        return _Content.OTHER
    path = top / file.name
    content: bytes | None = None
    if path.is_symlink():
        content = os.fsencode(os.readlink(path))
    elif path.is_file():
        content = path.read_bytes()
    old, new = (_content(top, file, side, commit) for side, commit in enumerate(commits))
    if content == old:
        return _Content.OLD
    if content is None or any(text is not None and text.startswith(content) for text in (old, new)):
        return _Content.NEW
    if old is not None and Checkout(top).is_content(file.ids[0], content):
        return _Content.OLD
    return _Content.OTHER


def _content(top: Path, file: _File, side: int, commit: str) -> bytes | None:
    """Return the content that git checks out for a file of a commit; None if the commit does not have it."""
    if not file.ids[side].strip("0"):
        return None
    arguments = (
        ("blob", file.ids[side]) if file.modes[side] == _LINK else ("--filters", f"{commit}:{file.name}")
    )
    return run_git(top, "cat-file", *arguments).stdout


def _restore(
    tree: CheckoutTree, top: Path, files: Sequence[_File], written: Sequence[_File], excluded: frozenset[str]
) -> None:
    """Restore all of the files in the index, and those in ``written`` in the folder, from the first commit."""
    kept = [file for file in files if file.is_old]
    entries = (("--cacheinfo", f"{file.modes[0]},{file.ids[0]},{file.name}") for file in kept)
    _index(tree, top, ("update-index", "--add"), [word for entry in entries for word in entry])
    _index(tree, top, ("update-index", "--force-remove"), _names(file for file in files if not file.is_old))
    _index(
        tree, top, ("update-index", "--skip-worktree"), _names(file for file in kept if file.name in excluded)
    )
    named = _names(file for file in written if file.is_old)
    _index(tree, top, ("checkout-index", "--quiet", "--force", "--index"), named)
    with Folder.open(top) as opened:
        # The folder of a new file may exist without the file.
        for file in files:
            if not file.is_old and file.name not in excluded:
                _remove(opened, tuple(file.name.split("/")))


def _remove(top: Folder, parts: tuple[str, ...]) -> None:
    """Remove a file that git created, and the folders above it that are then empty."""
    for end in range(len(parts), 0, -1):
        with suppress(FileNotFoundError), top.open_path(parts[: end - 1]) as parent:
            status = parent.stat(parts[end - 1])
            if end == len(parts) and status is not None and not stat.S_ISDIR(status.st_mode):
                parent.remove(parts[-1])
            elif end < len(parts):
                parent.remove_empty_folder(parts[end - 1])


def _index(tree: CheckoutTree, top: Path, command: Sequence[str], words: Sequence[str]) -> None:
    for start in range(0, len(words), _BATCH):
        done = run_git(top, *OWN_FILES, *command, *words[start : start + _BATCH])
        if done.returncode:
            raise UnfinishedError(
                f"git {command[0]} failed in {top} ({error_line(done)})",
                advice=f"fix the cause, {_retry(tree)}",
            )


def _names(files: Iterable[_File]) -> list[str]:
    """Return file names as arguments for git that cannot be taken for options."""
    return [f"./{file.name}" for file in files]
