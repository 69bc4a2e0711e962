"""All or nothing: a tree gets every byte of an apply or a revert, or, whatever goes wrong, not one.

Only this module writes a tree. A write notes itself in a journal, keeps every content that it takes or gives
in the ledger's folder and stages the new files beside the old ones; then it renames them into place. What
fails in between is taken back; what is killed in between is finished or taken back by `recover`.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import filelock

from patchkit.errors import TreeError
from patchkit.transaction import atomic
from patchkit.transaction.ledger import Journal, Ledger
from patchkit.transaction.store import Store, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from patchkit.tree.tree import CheckoutTree


def require_settled(tree: CheckoutTree) -> None:
    """Raise TreeError if a write to ``tree`` is under way or was interrupted."""
    if Store(tree.package).pending:
        raise TreeError(
            f"a write to {tree.package} is under way or was interrupted: "
            f"if no other patchkit is at work, run patchkit recover {tree.root}."
        )


@dataclass(frozen=True)
class FileWrite:
    """One file's next content; ``path`` is the regular file that ``file`` stands for."""

    file: str
    path: Path
    before: bytes
    after: bytes


@contextmanager
def locked(tree: CheckoutTree, *, recovering: bool = False) -> Iterator[Store]:
    """Hold the tree's lock, with its ledger's folder made; TreeError if another holds it or it is read-only."""
    _require_writable(tree.package)
    store = Store(tree.package)
    lock = filelock.FileLock(store.lock)
    with refusing(tree, "nothing was changed; mend that and try again"):
        fresh = not store.folder.exists()
        try:
            store.create()
            lock.acquire(blocking=False)
        except (filelock.Timeout, FileNotFoundError):
            raise TreeError(
                f"another patchkit is writing to {tree.package}: wait for its end and try again."
            ) from None
        except OSError:
            if fresh:
                store.discard()
            raise
    try:
        if not recovering:
            require_settled(tree)
        yield store
    finally:
        store.tidy()
        lock.release()


@contextmanager
def refusing(tree: CheckoutTree, advice: str) -> Iterator[None]:
    """Turn what the system refuses into a TreeError that ends in ``advice``."""
    try:
        yield
    except OSError as error:
        raise TreeError(f"{error.filename or tree.package}: {error.strerror}: {advice}.") from error


def target_of(tree: CheckoutTree, file: str) -> Path:
    """Return the regular file that ``file`` stands for; TreeError unless it is in the package."""
    named = tree.package / file
    try:
        path = named.resolve(strict=True)
        kind = path.stat().st_mode
    except (OSError, RuntimeError) as error:
        raise TreeError(f"{named} cannot be reached ({error}): put it back and try again.") from error
    if not path.is_relative_to(tree.package):
        raise TreeError(f"{named} leads out of the tree to {path}: put a copy of the file in its place.")
    if not stat.S_ISREG(kind):
        raise TreeError(f"{named} is not a regular file: put one in its place.")
    return path


def _require_writable(path: Path) -> None:
    # Root may write everywhere, yet a file without any write bit says that its owner wants it left alone.
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise TreeError(f"{path} is read-only: make it writable (chmod u+w) or work on a copy of the tree.")


def checked_writes(tree: CheckoutTree, contents: Mapping[str, tuple[bytes, bytes]]) -> list[FileWrite]:
    """Check that each file may be written and stands as the first of its two contents."""
    writes: dict[Path, FileWrite] = {}
    for file, (before, after) in contents.items():
        path = target_of(tree, file)
        _require_writable(path)
        _require_writable(path.parent)
        if tree.read(file) != before:
            raise TreeError(f"{path} was changed while patchkit was at work: try again.")
        if path in writes:
            raise TreeError(
                f"{writes[path].file} and {file} are the same file: put a copy in place of the link."
            )
        writes[path] = FileWrite(file, path, before, after)
    return list(writes.values())


def write_all(
    tree: CheckoutTree,
    store: Store,
    writes: Sequence[FileWrite],
    *,
    before: Ledger,
    after: Ledger,
    contents: Sequence[bytes] = (),
) -> None:
    """Give every file and the ledger their new content, or leave every one as it is and raise TreeError."""
    journal = Journal({w.file: (digest_of(w.before), digest_of(w.after)) for w in writes}, after)
    try:
        store.begin(journal)
        for content in (*contents, *(content for write in writes for content in (write.before, write.after))):
            store.put(content)
        store.stage(after)
        for write in writes:
            atomic.stage(write.path, write.after, like=write.path)
        for write in writes:
            atomic.publish(write.path)
        store.publish()
    except BaseException as error:
        _roll_back(tree, store, writes, before)
        if isinstance(error, OSError):
            raise TreeError(
                f"{error.filename or tree.package}: {error.strerror}: nothing was changed; mend that "
                "and try again."
            ) from error
        raise
    with refusing(tree, f"everything is written; run patchkit recover {tree.root}"):
        store.end()


def _roll_back(tree: CheckoutTree, store: Store, writes: Sequence[FileWrite], before: Ledger) -> None:
    with refusing(tree, f"the write is interrupted; run patchkit recover {tree.root}"):
        for write in writes:
            atomic.unstage(write.path)
            if write.path.read_bytes() == write.after:
                atomic.replace(write.path, write.before, like=write.path)
        store.unstage()
        if store.read() != before:
            store.stage(before)
            store.publish()
        store.end()
