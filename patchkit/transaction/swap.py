"""Replace one file atomically, and keep its old content beside it until the whole write is done.

The new content is staged under another name and then exchanged with the file. The old content is checked after the
exchange: if someone saved the file in the meantime, the exchange is reversed. A content that is not whole yet has
another name, so that what is aside is the new content, the old one, or what a person saved to it.
"""

from __future__ import annotations

import enum
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import TreeError
from patchkit.transaction import byte_code
from patchkit.tree.git import object_id
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


class FileKind(enum.Enum):
    """The kind of a file that git tracks."""

    PLAIN = "plain"
    EXECUTABLE = "executable"
    LINK = "link"


class Swap(NamedTuple):
    """One file of a write; ``before`` and ``after`` are digests, None if the file does not exist.

    ``file`` is its name in messages; ``opened`` opens its folder, and ``name`` is its name there; ``content`` returns
    contents by digest. ``kinds`` are those of the old and the new file; without them it is a file that keeps its mode.
    ``staging`` is the folder for the new content, and the name there, by default beside the file.
    """

    file: str
    opened: Callable[[], Folder]
    name: str
    before: str | None
    after: str | None
    content: Callable[[str], bytes]
    kinds: tuple[FileKind, FileKind] | None = None
    staging: tuple[Folder, str] | None = None

    @property
    def folder(self) -> Folder:
        """The folder of the file. Raise OSError if it does not exist or is a link."""
        return self.opened()

    @property
    def aside_folder(self) -> Folder:
        """The folder of the new content, and after the exchange of the old one."""
        return self.staging[0] if self.staging else self.folder

    @property
    def aside(self) -> str:
        """The name, in ``aside_folder``, of the new content, and after the exchange of the old one."""
        return self.staging[1] if self.staging else staged_name(self.name)

    @property
    def _unfinished(self) -> str:
        """The name, in ``aside_folder``, of a content that is being written."""
        return unfinished_name(self.aside)

    @property
    def path(self) -> str:
        """The path of the file, for messages."""
        return str(self.folder.path / self.name)

    def states(self) -> tuple[FileState, FileState]:
        """Return the states of the file and of its content aside."""
        return self._state(self.folder, self.name), self._aside_state()

    def _aside_state(self) -> FileState:
        if self.aside_folder.stat(self.aside) is None:
            return FileState.NOTHING
        return self._state(self.aside_folder, self.aside)

    def _state(self, folder: Folder, name: str) -> FileState:
        for digest in _digests(folder, name):
            if digest == self.before:
                return FileState.BEFORE
            if digest == self.after:
                return FileState.AFTER
        return FileState.OTHER

    def stage(self, side: int = 1) -> None:
        """Write the old (0) or the new (1) content aside, with the mode and owner of the file if there is one."""
        digest = (self.before, self.after)[side]
        if digest is None:
            return
        folder, kind = self.aside_folder, self.kinds[side] if self.kinds else None
        if kind is FileKind.LINK:
            folder.create_link(self._unfinished, self.content(digest))
        else:
            like = self.folder.stat(self.name) if (self.after, self.before)[side] is not None else None
            like = like if like is not None and stat.S_ISREG(like.st_mode) else None
            changes = self.kinds is not None and (like is None or self.kinds[0] is not self.kinds[1])
            executable = kind is FileKind.EXECUTABLE if changes else None
            folder.create(self._unfinished, self.content(digest), like, executable=executable)
        folder.rename(self._unfinished, self.aside)

    def publish(self) -> None:
        """Put the new content in place. Raise TreeError, with nothing changed, if the file has changed."""
        folder, aside_folder = self.folder, self.aside_folder
        try:
            if self.before is None:
                aside_folder.link(self.aside, self.name, folder)
                aside_folder.remove(self.aside)
            elif self.after is None:
                folder.rename(self.name, self.aside, aside_folder)
                if self._aside_state() is not FileState.BEFORE:
                    aside_folder.link(self.aside, self.name, folder)
                    aside_folder.remove(self.aside)
                    raise concurrent_change_error(self.path)
            elif aside_folder.exchange(self.aside, self.name, folder):
                if self._aside_state() is not FileState.BEFORE:
                    aside_folder.exchange(self.aside, self.name, folder)
                    raise concurrent_change_error(self.path)
            else:
                if self._state(folder, self.name) is not FileState.BEFORE:
                    raise concurrent_change_error(self.path)
                aside_folder.rename(self.aside, self.name, folder)
        except (FileExistsError, FileNotFoundError):
            raise concurrent_change_error(self.path) from None
        folder.flush()

    def discard_old(self) -> None:
        """Delete the old content aside. Raise TreeError if it is something else."""
        self.require_unsaved()
        self.aside_folder.remove(self.aside)
        # The folder of a file that a move takes away may be gone.
        if self.after is not None or self.staging is None:
            byte_code.discard(self.folder, self.name)

    def discard_staged(self) -> None:
        """Delete the new content aside, of a file whose folder does not exist."""
        self.aside_folder.remove(self._unfinished)
        self.aside_folder.remove(self.aside)

    def require_unsaved(self) -> None:
        """Raise TreeError if someone saved the file to what is now aside."""
        if self._aside_state() is FileState.OTHER:
            raise self.saved_error()

    def undo(self) -> None:
        """Restore the old content, from any stage of the write. Raise TreeError if the file was changed since."""
        self.aside_folder.remove(self._unfinished)
        target, aside = self.states()
        if aside is FileState.AFTER:
            if self.before is None and target is FileState.AFTER and self._is_one_file():
                self.folder.remove(self.name)
            self.aside_folder.remove(self.aside)
        elif target is FileState.AFTER:
            self._restore(aside)
        elif self.is_saved_aside or (aside is FileState.BEFORE and target is FileState.OTHER):
            raise self.saved_error()
        else:
            self.aside_folder.remove(self.aside)
        self.folder.flush()

    @property
    def is_saved_aside(self) -> bool:
        """Whether someone saved a version that is only aside."""
        return self._aside_state() is FileState.OTHER and not self._is_one_file()

    def _restore(self, aside: FileState) -> None:
        """Replace the new content by the old one, which is aside."""
        folder, aside_folder = self.folder, self.aside_folder
        if self.before is None:
            if aside is not FileState.NOTHING:
                raise self.saved_error()
            folder.rename(self.name, self.aside, aside_folder)
            if self._aside_state() is not FileState.AFTER:
                aside_folder.link(self.aside, self.name, folder)
                aside_folder.remove(self.aside)
                raise self.changed_error()
            aside_folder.remove(self.aside)
            return
        if aside is FileState.NOTHING:
            self.stage(0)
        if self.after is None:
            aside_folder.link(self.aside, self.name, folder)
        elif aside_folder.exchange(self.aside, self.name, folder):
            if self._aside_state() is not FileState.AFTER:
                aside_folder.exchange(self.aside, self.name, folder)
                raise self.changed_error()
        else:
            aside_folder.rename(self.aside, self.name, folder)
        aside_folder.remove(self.aside)

    def finish(self) -> None:
        """Put the new content in place, from any stage of the write. Raise TreeError if the file was changed since."""
        self.aside_folder.remove(self._unfinished)
        target, _ = self.states()
        if target is FileState.OTHER:
            raise self.changed_error()
        self.require_unsaved()
        if target is FileState.BEFORE:
            self.aside_folder.remove(self.aside)
            self.stage()
            self.publish()

    def _is_one_file(self) -> bool:
        target, aside = self.folder.stat(self.name), self.aside_folder.stat(self.aside)
        return target is not None and aside is not None and os.path.samestat(target, aside)

    def changed_error(self, original: str = "the content from before the write") -> TreeError:
        """Return the error for a file that was changed after the interruption; ``original`` is what to restore."""
        return TreeError(
            f"{self.path} was changed after the write was interrupted",
            advice=f"save your version elsewhere, copy {original} to the file, and run patchkit apply --continue again",
        )

    def saved_error(self) -> TreeError:
        """Return the error for a file that someone saved during the write."""
        aside = self.aside_folder.path / self.aside
        return TreeError(
            f"{self.name} was saved by another program during the write; the saved version is in {aside}",
            advice="move that elsewhere and run patchkit apply --continue",
        )


def staged_name(name: str) -> str:
    """Return the name beside ``name`` under which a file's new content is staged."""
    return f".{name}.patchkit"


def unfinished_name(staged: str) -> str:
    """Return the name of a content until it is whole and gets the name ``staged``."""
    return f"{staged}-part"


def digest_of(content: bytes, kind: FileKind = FileKind.PLAIN) -> str:
    """Return git's id of a file's content, or, unless it is a plain file, an id of its content and kind."""
    return object_id(content, "blob" if kind is FileKind.PLAIN else kind.value)


def digest_or_none(content: bytes | None) -> str | None:
    """Return git's id of ``content``, or None if the file does not exist."""
    return None if content is None else digest_of(content)


def content_or_none(digest: str | None, content: Callable[[str], bytes]) -> bytes | None:
    """Return what ``content`` has for a digest, or None if the file does not exist."""
    return None if digest is None else content(digest)


def concurrent_change_error(place: object) -> TreeError:
    """Return the error for a file or tree that another process changed."""
    return TreeError(f"{place} was changed while patchkit was running", advice="try again")


def _digests(folder: Folder, name: str) -> tuple[str | None, ...]:
    """Return the digests that a file has: with its kind, and as a plain file, which a write that keeps modes takes."""
    status = folder.stat(name)
    if status is None:
        return (None,)
    if stat.S_ISLNK(status.st_mode):
        return (digest_of(folder.target(name), FileKind.LINK),)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_READ_BYTES:
        return ()
    content = folder.read(name)
    if content is None:
        return (None,)
    plain = digest_of(content)
    return (digest_of(content, FileKind.EXECUTABLE), plain) if status.st_mode & stat.S_IXUSR else (plain,)
