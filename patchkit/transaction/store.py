"""The ledger's folder: the ledger, the journal, and the contents that a revert or a recovery needs.

patchkit creates and marks the folder, reopens it each time without following links, and removes only its own
files from it.
"""

from __future__ import annotations

import errno
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from patchkit.errors import TreeError
from patchkit.transaction import formats
from patchkit.transaction.folder import Folder
from patchkit.transaction.ledger import FOLDER, Ledger
from patchkit.transaction.swap import digest_of, staged_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from patchkit.transaction.ledger import Journal

LOCK = "lock"
_LEDGER, _JOURNAL, _OBJECTS, _STAGING = "ledger.json", "journal.json", "objects", "staging"
_MARKER, _IGNORE = "made-by-patchkit", ".gitignore"
_MARKER_TEXT = b"Data that patchkit needs to revert its patches, described in docs/formats.md of patchkit.\n"
_FILES = (_LEDGER, _JOURNAL, _IGNORE, _MARKER)
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
# Between two reads, another process can revert a patch and apply it again, but not this often.
_TRIES = 5
_Kind = TypeVar("_Kind")


class Store:
    """The ``.patchkit`` folder of a package; each of its files is written atomically.

    ``locked`` is set if no other process can write to it.
    """

    def __init__(self, package: Path, *, locked: bool = False) -> None:
        self._package = package
        self._locked = locked
        self.path = package / FOLDER

    @contextmanager
    def opened(self) -> Iterator[Folder | None]:
        """Open the folder; yield None if it does not exist. Raise TreeError if patchkit did not create it."""
        with self._wrapped_os_errors(self.path), Folder.open(self._package) as package:
            folder = None
            try:
                folder = package.open_folder(FOLDER)
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
        """Accept a folder without the marker, as version 0.1 made it, only if it contains nothing else."""
        with self._wrapped_os_errors(self.path):
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

    def tidy(self) -> None:
        """Remove unused contents, and everything if the ledger is empty; nothing during a write."""
        with suppress(OSError, TreeError):
            if self.pending:
                return
            ledger = self.read()
            with self._existing() as folder:
                _remove_unused(folder, ledger.contents)
                for name in _FILES:
                    folder.remove(staged_name(name))
                folder.remove_empty_folder(_STAGING)
                if not ledger.records:
                    _discard(folder)
            if not ledger.records:
                with Folder.open(self._package) as package:
                    package.remove_empty_folder(FOLDER)

    def read(self) -> Ledger:
        """Return the ledger, empty if there is none. Raise TreeError if it is damaged or from a newer patchkit."""
        return self._read(_LEDGER, formats.read_ledger) or Ledger()

    def line(self, word: str) -> int:
        """Return the first line of the ledger's file that contains a name or a digest, else 1."""
        with self.opened() as folder, self._wrapped_os_errors(self.path / _LEDGER):
            content = None if folder is None else folder.read(_LEDGER)
        lines = (content or b"").splitlines()
        return next((number for number, line in enumerate(lines, 1) if word.encode() in line), 1)

    def stage(self, ledger: Ledger) -> None:
        """Write the next ledger to disk under another name."""
        with self._existing() as folder:
            _stage(folder, _LEDGER, formats.encoded(ledger))

    def publish(self) -> None:
        """Put the staged ledger in place."""
        with self._existing() as folder:
            _publish(folder, _LEDGER)

    def unstage(self) -> None:
        """Remove a staged ledger."""
        with self._existing() as folder:
            folder.remove(staged_name(_LEDGER))

    @property
    def pending(self) -> bool:
        """Whether a write has started and not ended."""
        with self.opened() as folder, self._wrapped_os_errors(self.path):
            return folder is not None and folder.stat(_JOURNAL) is not None

    @property
    def generation(self) -> tuple[int, ...]:
        """Numbers that change with every write, also with one that leaves the same ledger, or none."""
        known: list[int] = []
        for path in (self.path / _LEDGER, self.path, self._package):
            with self._wrapped_os_errors(path), suppress(FileNotFoundError, NotADirectoryError):
                found = path.lstat()
                known += (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
                if path == self.path:
                    break
        return tuple(known)

    def journal(self) -> Journal | None:
        """Return the write in progress, or None. Raise TreeError if the journal is damaged or from a newer patchkit."""
        return self._read(_JOURNAL, formats.read_journal)

    def begin(self, journal: Journal) -> None:
        """Record that a write is in progress."""
        with self._existing() as folder:
            _replace(folder, _JOURNAL, formats.encoded(journal))

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

    def put(self, content: bytes) -> str:
        """Store ``content`` and return its digest."""
        digest = digest_of(content)
        if not self.has(digest):
            with self._existing() as folder, folder.open_folder(_OBJECTS) as objects:
                _replace(objects, digest, content)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the content with this digest. Raise TreeError if it is missing, unreadable or damaged."""
        content = self._read_content(digest)
        if content is None and not self._locked:
            content = self._reread(digest)
        if content is None:
            raise TreeError(
                f"{self.where(digest)} is missing",
                advice="restore it from a copy, or restore the tree's files with git",
            )
        if digest_of(content) != digest:
            raise self._damaged(self.where(digest))
        return content

    def has(self, digest: str) -> bool:
        """Return whether the content with this digest is stored and readable."""
        try:
            content = self._read_content(digest)
        except TreeError:
            return False
        return content is not None and digest_of(content) == digest

    def _reread(self, digest: str) -> bytes | None:
        """Return a missing content that another process has stored by now, None if the ledger lacks its content.

        Raise TreeError if another process is writing, or has removed the content because the ledger needs it no more.
        """
        for _ in range(_TRIES):
            if self.pending or digest not in self.read().contents:
                raise TreeError(f"{self.path} was changed while patchkit was running", advice="try again")
            content = self._read_content(digest)
            if content is not None:
                return content
        return None

    def _read_content(self, digest: str) -> bytes | None:
        try:
            with (
                self._wrapped_os_errors(self.where(digest)),
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

    def _read(self, name: str, read: Callable[[bytes], _Kind]) -> _Kind | None:
        with self.opened() as folder, self._wrapped_os_errors(self.path / name):
            content = None if folder is None else folder.read(name)
        if content is None:
            return None
        try:
            return read(content)
        except formats.NewerError as error:
            raise TreeError(
                f"{self.path / name} is from a newer patchkit ({error})", advice="upgrade patchkit"
            ) from None
        except formats.DamagedError:
            raise self._damaged(self.path / name) from None

    def _damaged(self, path: Path) -> TreeError:
        return TreeError(
            f"{path} is damaged",
            advice=f"restore it from a copy, or restore the tree's files with git and move {self.path} away",
        )

    @contextmanager
    def _wrapped_os_errors(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TreeError(
                f"{error.filename or path} cannot be read: {error.strerror}",
                advice="fix the cause and try again",
            ) from error


def _is_own(name: str) -> bool:
    own = (*_FILES, *map(staged_name, _FILES), LOCK, _OBJECTS, _STAGING)
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
    """Remove the folder's content: the ledger after the contents, the lock last."""
    folder.remove_empty_folder(_OBJECTS)
    folder.remove(_LEDGER)
    if all(map(_is_own, folder.names())):
        for name in (_IGNORE, _MARKER, LOCK):
            folder.remove(name)


def _stage(folder: Folder, name: str, content: bytes) -> None:
    folder.remove(staged_name(name))
    folder.create(staged_name(name), content)


def _publish(folder: Folder, name: str) -> None:
    folder.rename(staged_name(name), name)
    folder.flush()


def _replace(folder: Folder, name: str, content: bytes) -> None:
    _stage(folder, name, content)
    _publish(folder, name)
