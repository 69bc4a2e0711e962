"""The ledger's folder: the ledger, the journal, and every content that a revert or a recovery may need."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import msgspec

from patchkit.errors import TreeError
from patchkit.transaction import atomic
from patchkit.tree.tree import reading

if TYPE_CHECKING:
    from pathlib import Path

from patchkit.transaction.ledger import FOLDER, Journal, Ledger

_Kind = TypeVar("_Kind", Ledger, Journal)


class Store:
    """The ``.patchkit`` folder of a package: ledger, journal and contents, each whole or not there."""

    def __init__(self, package: Path) -> None:
        self.folder = package / FOLDER
        self.lock = self.folder / "lock"
        self._ledger = self.folder / "ledger.json"
        self._journal = self.folder / "journal.json"
        self._objects = self.folder / "objects"

    def create(self) -> None:
        """Make the folder, hidden from git."""
        self._objects.mkdir(parents=True, exist_ok=True)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            atomic.replace(ignore, b"*\n")

    def tidy(self) -> None:
        """Drop what nothing refers to, all if the ledger is empty; nothing while a write is pending."""
        if self.pending:
            return
        with suppress(OSError, TreeError):
            ledger = self.read()
            if not ledger.layers:
                self.discard()
                return
            for path in (self._ledger, self._journal):
                atomic.unstage(path)
            for path in self._objects.iterdir():
                if path.name not in ledger.contents:
                    path.unlink()

    def discard(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self) -> Ledger:
        """Return the ledger; empty if there is none, TreeError if it is damaged."""
        return self._decode(self._ledger, Ledger) or Ledger()

    def stage(self, ledger: Ledger) -> None:
        """Write the next ledger to disk without putting it in place."""
        atomic.stage(self._ledger, _encode(ledger))

    def publish(self) -> None:
        """Put the staged ledger in place."""
        atomic.publish(self._ledger)

    def unstage(self) -> None:
        """Drop a ledger that was staged and not put in place."""
        atomic.unstage(self._ledger)

    @property
    def pending(self) -> bool:
        """Whether a write began and did not end."""
        return self._journal.exists()

    def journal(self) -> Journal | None:
        """Return the write under way, or None; TreeError if the journal is damaged."""
        return self._decode(self._journal, Journal)

    def begin(self, journal: Journal) -> None:
        """Note that a write is under way."""
        atomic.replace(self._journal, _encode(journal))

    def end(self) -> None:
        """Note that no write is under way."""
        # Not flushed: a journal that a power cut brings back finds every file as it is to be.
        self._journal.unlink(missing_ok=True)

    def path(self, digest: str) -> Path:
        """Return where the content with this digest is kept."""
        return self._objects / digest

    def put(self, content: bytes) -> str:
        """Keep ``content`` and return its digest."""
        digest = digest_of(content)
        if not self.holds(digest):
            atomic.replace(self.path(digest), content)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the content with this digest; TreeError if it is missing or damaged."""
        with reading(self.path(digest)):
            content = self.path(digest).read_bytes()
        if digest_of(content) != digest:
            raise self._damaged(self.path(digest))
        return content

    def holds(self, digest: str) -> bool:
        """Tell whether the content with this digest is here and undamaged."""
        try:
            return digest_of(self.path(digest).read_bytes()) == digest
        except FileNotFoundError:
            return False

    def _decode(self, path: Path, kind: type[_Kind]) -> _Kind | None:
        with reading(path), suppress(FileNotFoundError, NotADirectoryError):
            try:
                return msgspec.json.decode(path.read_bytes(), type=kind)
            except msgspec.DecodeError:
                raise self._damaged(path) from None
        return None

    def _damaged(self, path: Path) -> TreeError:
        return TreeError(
            f"{path} is damaged: put the tree's files back with git or from a copy, and remove {self.folder}."
        )


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _encode(value: Ledger | Journal) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
