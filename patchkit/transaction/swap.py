"""Replace one file atomically, and keep its old content beside it until the whole write is done.

The new content is staged under another name and then exchanged with the file. The old content is checked after the
exchange: if someone saved the file in the meantime, the exchange is reversed.
"""

from __future__ import annotations

import enum
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.transaction import byte_code
from patchkit.tree.limits import MAX_READ_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.transaction.folder import Folder


class FileState(enum.Enum):
    """The content under a file name: none, that before the write, that after it, or another."""

    NOTHING = "nothing"
    BEFORE = "before"
    AFTER = "after"
    OTHER = "other"


@dataclass(frozen=True)
class Swap:
    """One file of a write; ``before`` and ``after`` are digests, None if the file does not exist.

    ``file`` is its name in the ledger, ``folder`` and ``name`` are its real location; ``content`` returns contents
    by digest.
    """

    file: str
    folder: Folder
    name: str
    before: str | None
    after: str | None
    content: Callable[[str], bytes]

    @property
    def aside(self) -> str:
        """The name, beside the file, of the new content, and after the exchange of the old one."""
        return staged_name(self.name)

    @property
    def _restored_name(self) -> str:
        """The name under which the old content is written again by an undo."""
        return f".{self.name}.patchkit-back"

    @property
    def path(self) -> str:
        """The path of the file, for messages."""
        return str(self.folder.path / self.name)

    def states(self) -> tuple[FileState, FileState]:
        """Return the states of the file and of the name beside it."""
        return self._state(self.name), self._state(self.aside)

    def _state(self, name: str) -> FileState:
        digest = self._digest(name)
        if digest is None and name == self.aside:
            return FileState.NOTHING
        if digest == self.before:
            return FileState.BEFORE
        return FileState.AFTER if digest == self.after else FileState.OTHER

    def _digest(self, name: str) -> str | None:
        known = self.folder.stat(name)
        if known is not None and not (stat.S_ISREG(known.st_mode) and known.st_size <= MAX_READ_BYTES):
            return "none that patchkit wrote"
        content = None if known is None else self.folder.read(name)
        return None if content is None else digest_of(content)

    def stage(self) -> None:
        """Write the new content beside the file, with its mode and owner."""
        if self.after is not None:
            like = self.folder.stat(self.name) if self.before is not None else None
            self.folder.create(self.aside, self.content(self.after), like)

    def publish(self) -> None:
        """Put the new content in place. Raise TreeError, with nothing changed, if the file has changed."""
        try:
            if self.before is None:
                self.folder.link(self.aside, self.name)
                self.folder.remove(self.aside)
            elif self.after is None:
                self.folder.rename(self.name, self.aside)
                if self._state(self.aside) is not FileState.BEFORE:
                    self.folder.link(self.aside, self.name)
                    self.folder.remove(self.aside)
                    raise self._concurrent_change_error()
            elif self.folder.exchange(self.aside, self.name):
                if self._state(self.aside) is not FileState.BEFORE:
                    self.folder.exchange(self.aside, self.name)
                    raise self._concurrent_change_error()
            else:
                if self._state(self.name) is not FileState.BEFORE:
                    raise self._concurrent_change_error()
                self.folder.rename(self.aside, self.name)
        except (FileExistsError, FileNotFoundError):
            raise self._concurrent_change_error() from None
        self.folder.flush()

    def discard_old(self) -> None:
        """Delete the old content beside the file. Raise TreeError if it is something else."""
        if self._state(self.aside) is FileState.OTHER:
            raise self.saved_error()
        self.folder.remove(self.aside)
        byte_code.discard(self.folder, self.name)

    def undo(self) -> None:
        """Restore the old content, from any stage of the write. Raise TreeError if the file was changed since."""
        self.folder.remove(self._restored_name)
        target, aside = self.states()
        if aside is FileState.AFTER:
            if self.before is None and target is FileState.AFTER and self._is_one_file():
                self.folder.remove(self.name)
            self.folder.remove(self.aside)
        elif target is FileState.AFTER:
            self._restore(aside)
        elif aside is not FileState.NOTHING and target is FileState.OTHER:
            raise self.saved_error()
        else:
            self.folder.remove(self.aside)
        self.folder.flush()

    def _restore(self, aside: FileState) -> None:
        """Replace the new content by the old one, which is beside the file."""
        if self.before is None:
            self.folder.remove(self.name)
        elif self.after is None:
            if aside is FileState.NOTHING:
                self.folder.create(self.aside, self.content(self.before))
            self.folder.link(self.aside, self.name)
        elif aside is FileState.NOTHING:
            self.folder.create(self._restored_name, self.content(self.before), self.folder.stat(self.name))
            self.folder.rename(self._restored_name, self.name)
        elif not self.folder.exchange(self.aside, self.name):
            self.folder.rename(self.aside, self.name)
        self.folder.remove(self.aside)

    def finish(self) -> None:
        """Put the new content in place, from any stage of the write. Raise TreeError if the file was changed since."""
        self.folder.remove(self._restored_name)
        target, aside = self.states()
        if target is FileState.OTHER:
            raise self.changed_error()
        if target is FileState.BEFORE:
            self.folder.remove(self.aside)
            self.stage()
            self.publish()
        elif aside is FileState.OTHER:
            raise self.saved_error()

    def _is_one_file(self) -> bool:
        target, aside = self.folder.stat(self.name), self.folder.stat(self.aside)
        return target is not None and aside is not None and os.path.samestat(target, aside)

    def _concurrent_change_error(self) -> TreeError:
        return TreeError(f"{self.path} was changed while patchkit was running", advice="try again")

    def changed_error(self, original: str = "the content from before the write") -> TreeError:
        """Return the error for a file that was changed after the interruption; ``original`` is what to restore."""
        return TreeError(
            f"{self.path} was changed after the write was interrupted",
            advice=f"save your version elsewhere, copy {original} to the file, and run patchkit apply --continue again",
        )

    def saved_error(self) -> TreeError:
        """Return the error for a file that someone saved during the write."""
        aside = self.folder.path / self.aside
        return TreeError(
            f"{self.name} was saved by another program during the write; the saved version is in {aside}",
            advice="move that elsewhere and run patchkit apply --continue",
        )


def staged_name(name: str) -> str:
    """Return the name beside ``name`` under which a file's new content is staged."""
    return f".{name}.patchkit"


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def digest_or_none(content: bytes | None) -> str | None:
    """Return the SHA-256 of ``content``, or None if the file does not exist."""
    return None if content is None else digest_of(content)
