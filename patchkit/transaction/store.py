"""patchkit's own folder in a package: the journal, and the contents that a revert or a recovery needs.

patchkit creates and marks the folder, reopens it each time without following links, and removes only its own
files from it.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.transaction import journal
from patchkit.transaction.folder import Folder
from patchkit.transaction.swap import FileKind, digest_of, staged_name
from patchkit.tree.fork import OWN_FOLDER, RECORD
from patchkit.tree.git import top_around
from patchkit.tree.objects import GitRepository
from patchkit.tree.tree import reading

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from patchkit.transaction.journal import Journal

LOCK = "lock"
_JOURNAL, _OBJECTS, _STAGING = "journal.json", "objects", "staging"
_MARKER, _IGNORE = "made-by-patchkit", ".gitignore"
_MARKER_TEXT = b"Data that patchkit needs to revert its patches, described in docs/formats.md of patchkit.\n"
_FILES = (_JOURNAL, _IGNORE, _MARKER)
_DIGEST = re.compile(r"[0-9a-f]{40}\Z")


class Store:
    """The ``.patchkit`` folder of a package; each of its files is written atomically."""

    def __init__(self, package: Path, expected: frozenset[str] = frozenset()) -> None:
        """``expected`` are digests of contents that one git process reads together, once the folder lacks one."""
        self._package = package
        self._expected = expected
        self._in_git: dict[str, bytes] = {}
        self.path = package / OWN_FOLDER

    @contextmanager
    def opened(self) -> Iterator[Folder | None]:
        """Open the folder; yield None if it does not exist. Raise TreeError if patchkit did not create it."""
        with reading(self.path), Folder.open(self._package) as package:
            folder = None
            try:
                folder = package.open_folder(OWN_FOLDER)
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                raise TreeError(
                    f"{self.path} is a link or not a folder", advice="move it away and try again"
                ) from None
        if folder is None:
            yield None
            return
        with folder:
            self._require_own(folder)
            yield folder

    def _require_own(self, folder: Folder) -> None:
        """Accept a folder without the marker, which a killed process may leave, if it contains nothing else."""
        with reading(self.path):
            if folder.stat(_MARKER) is not None:
                return
            foreign = [name for name in folder.names() if not _is_own(name)]
        if foreign:
            raise TreeError(
                f"{self.path} was not made by patchkit (it contains {foreign[0]!r})",
                advice="move it away and try again",
            )

    def create(self) -> None:
        """Create the folder's content, hidden from git, and mark it as patchkit's."""
        with self._existing() as folder:
            if folder.stat(_MARKER) is None:
                _replace(folder, _MARKER, _MARKER_TEXT)
            if folder.stat(_IGNORE) is None:
                _replace(folder, _IGNORE, b"*\n")
            folder.create_folder(_OBJECTS)
            folder.open_folder(_OBJECTS).close()

    def tidy(self, needed: frozenset[str]) -> None:
        """Remove the contents that are not ``needed``, and the folder if nothing is left; nothing during a write."""
        with suppress(OSError, TreeError):
            if self.pending:
                return
            with self._existing() as folder:
                _remove_unused(folder, needed)
                for name in _FILES:
                    folder.remove(staged_name(name))
                folder.remove_empty_folder(_STAGING)
                folder.remove_empty_folder(_OBJECTS)
                is_empty = folder.stat(_OBJECTS) is None and folder.stat(RECORD) is None
                if is_empty:
                    _discard(folder)
            if is_empty:
                with Folder.open(self._package) as package:
                    package.remove_empty_folder(OWN_FOLDER)

    @property
    def pending(self) -> bool:
        """Whether a write has started and not ended."""
        with self.opened() as folder, reading(self.path):
            return folder is not None and folder.stat(_JOURNAL) is not None

    @property
    def generation(self) -> tuple[int, ...]:
        """Numbers that change with every write, also with one that leaves the same record, or none."""
        for path in (self.path, self._package):
            with reading(path), suppress(FileNotFoundError, NotADirectoryError):
                status = path.lstat()
                return status.st_ino, status.st_mtime_ns, status.st_ctime_ns
        return ()

    def journal(self) -> Journal | None:
        """Return the write in progress, or None. Raise TreeError if the journal is damaged or from a newer patchkit."""
        path = self.path / _JOURNAL
        with self.opened() as folder, reading(path):
            content = None if folder is None else folder.read(_JOURNAL)
        if content is None:
            return None
        try:
            started = journal.decoded(content)
        except ValueError:
            raise self._damaged(path) from None
        if isinstance(started, int):
            raise TreeError(
                f"{path} is from a newer patchkit (format {started}; this version reads up to {journal.FORMAT})",
                advice="upgrade patchkit",
            )
        return started

    def begin(self, started: Journal) -> None:
        """Record that a write is in progress."""
        with self._existing() as folder:
            _replace(folder, _JOURNAL, journal.encoded(started))

    def end(self) -> None:
        """Record, on disk, that no write is in progress, so that its contents can be removed."""
        with self._existing() as folder:
            folder.remove(_JOURNAL)
            folder.flush()

    @contextmanager
    def staging(self) -> Iterator[Folder]:
        """Open the folder for the new content of files whose own folder may not exist yet."""
        with self._existing() as folder:
            folder.create_folder(_STAGING)
            opened = folder.open_folder(_STAGING)
        with opened:
            yield opened

    def where(self, digest: str) -> Path:
        """Return the path of the content with this digest, for messages."""
        return self.path / _OBJECTS / digest

    def put(self, content: bytes, kind: FileKind = FileKind.PLAIN) -> str:
        """Store ``content`` and return its digest."""
        digest = digest_of(content, kind)
        if not self.has(digest):
            with self._existing() as folder, folder.open_folder(_OBJECTS) as objects:
                _replace(objects, digest, content)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the content with this digest, from the folder or from git.

        Raise TreeError if it is missing, unreadable or damaged.
        """
        content = self._read_content(digest)
        if content is not None and not _is_of(digest, content):
            raise self._damaged(self.where(digest))
        if content is None:
            content = self._of_git(digest)
        if content is None:
            raise TreeError(
                f"{self.where(digest)} is missing, and git does not have it",
                advice="restore it from a copy, or restore the tree's files with git",
            )
        return content

    def has(self, digest: str) -> bool:
        """Return whether the content with this digest is in the folder, and readable."""
        try:
            content = self._read_content(digest)
        except TreeError:
            return False
        return content is not None and _is_of(digest, content)

    def _of_git(self, digest: str) -> bytes | None:
        if digest not in self._in_git and top_around(self._package) is not None:
            with suppress(TreeError), GitRepository(self._package) as repository:
                for content_id in {digest, *self._expected}.difference(self._in_git):
                    blob = repository.object(content_id)
                    # In a repository with other ids, this one may be the start of another.
                    if blob is not None and digest_of(blob[1]) == content_id:
                        self._in_git[content_id] = blob[1]
        return self._in_git.get(digest)

    def _read_content(self, digest: str) -> bytes | None:
        try:
            with (
                reading(self.where(digest)),
                self._existing() as folder,
                folder.open_folder(_OBJECTS) as objects,
            ):
                return objects.read(digest)
        except TreeError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    @contextmanager
    def _existing(self) -> Iterator[Folder]:
        """Open the folder, which must exist."""
        with self.opened() as folder:
            if folder is None:
                raise FileNotFoundError(errno.ENOENT, "Was removed", str(self.path))
            yield folder

    def _damaged(self, path: Path) -> TreeError:
        return TreeError(
            f"{path} is damaged",
            advice=f"restore it from a copy, or restore the tree's files with git and move {self.path} away",
        )


def _is_of(digest: str, content: bytes) -> bool:
    """Return whether a content has a digest, as a file of any kind."""
    return any(digest_of(content, kind) == digest for kind in FileKind)


def _is_own(name: str) -> bool:
    own = (*_FILES, *map(staged_name, _FILES), RECORD, LOCK, _OBJECTS, _STAGING)
    return name in own


def _remove_unused(folder: Folder, needed: frozenset[str]) -> None:
    """Remove the contents that are not needed; files that patchkit did not name are kept."""
    if folder.stat(_OBJECTS) is None:
        return
    with folder.open_folder(_OBJECTS) as objects:
        for name in objects.names():
            digest = name.removeprefix(".").removesuffix(".patchkit")
            if _DIGEST.match(digest) and (digest != name or digest not in needed):
                objects.remove(name)


def _discard(folder: Folder) -> None:
    """Remove the folder's content, the lock last."""
    if all(map(_is_own, folder.names())):
        for name in (_IGNORE, _MARKER, LOCK):
            folder.remove(name)


def _replace(folder: Folder, name: str, content: bytes) -> None:
    folder.remove(staged_name(name))
    folder.create(staged_name(name), content)
    folder.rename(staged_name(name), name)
    folder.flush()
