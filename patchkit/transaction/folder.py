"""Change files below an opened folder, without following a link.

Every system call that changes a tree or patchkit's own folder is in this module. Names are relative to a descriptor, so
that a folder replaced by a link in the meantime redirects nothing out of the tree.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree.limits import MAX_READ_BYTES
from patchkit.tree.names import is_unsafe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe would block.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_EXCHANGE = 2
_NO_LINK = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EMLINK})
_NO_EXCHANGE = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})


class Folder:
    """An opened folder; ``path`` is its name in messages."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Open the folder at ``path``. Raise OSError if it is not a folder or is a link."""
        with _with_path(path):
            return cls(path, os.open(path, _FOLDER))

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.handle)

    def open_folder(self, name: str) -> Folder:
        """Open a folder in this one. Raise OSError if it does not exist, is a link, or is not a folder."""
        path = self.path.parent if name == ".." else self.path / name
        with _with_path(path):
            return Folder(path, os.open(name, _FOLDER, dir_fd=self.handle))

    def open_path(self, names: tuple[str, ...]) -> Folder:
        """Open the folder at the relative path ``names``; ``..`` is the folder that contains one."""
        opened = Folder(self.path, os.dup(self.handle))
        for name in names:
            with opened:
                opened = opened.open_folder(name)
        return opened

    def is_same(self, other: Folder) -> bool:
        """Return whether both are the same folder."""
        return os.path.sameopenfile(self.handle, other.handle)

    def names(self) -> list[str]:
        """Return the names in the folder, sorted."""
        with _with_path(self.path):
            return sorted(os.listdir(self.handle))

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of ``name``, of a link itself; None if it does not exist."""
        with _with_path(self.path / name), suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        return None

    def open_file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a regular file and return its descriptor. Raise OSError if it is anything else, such as a link."""
        with _with_path(self.path / name):
            handle = os.open(name, flags | _FILE, 0o644, dir_fd=self.handle)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise OSError(errno.EINVAL, "Not a regular file")
            return handle

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a regular file, None if it does not exist.

        Raise OSError if it is anything else or has more than ``MAX_READ_BYTES``.
        """
        try:
            handle = self.open_file(name)
        except FileNotFoundError:
            return None
        with _with_path(self.path / name), os.fdopen(handle, "rb") as stream:
            # Reading a sparse file allocates its whole size.
            if os.fstat(handle).st_size > MAX_READ_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            return stream.read()

    def create(
        self,
        name: str,
        content: bytes,
        like: os.stat_result | None = None,
        *,
        executable: bool | None = None,
    ) -> None:
        """Write a new file to disk, with the mode and owner of ``like``; remove it if that fails.

        ``executable`` sets or clears the permission to execute it.
        """
        with _with_path(self.path / name):
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=self.handle)
            try:
                try:
                    if like is not None:
                        _copy_mode_and_owner(handle, like)
                    if executable is not None:
                        _set_executable(handle, executable)
                    remaining = memoryview(content)
                    while remaining:
                        remaining = remaining[os.write(handle, remaining) :]
                    os.fsync(handle)
                finally:
                    os.close(handle)
            except BaseException:
                with suppress(OSError):
                    self.remove(name)
                raise

    def write_new_file(self, file: str, content: bytes) -> None:
        """Write a new file and the folders above it, without waiting for the disk.

        Raise TreeError for a path that leads out of the folder, OSError if a link or a file is in the way.
        """
        *folders, name = file.split("/")
        if any(map(is_unsafe, (*folders, name))):
            raise TreeError(f"{file!r} is not a valid path in {self.path}; nothing was written.")
        opened = Folder(self.path, os.dup(self.handle))
        for folder in folders:
            with opened, _with_path(opened.path / folder):
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=opened.handle)
                opened = opened.open_folder(folder)
        with opened, _with_path(opened.path / name):
            handle = opened.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)

    def create_link(self, name: str, target: bytes) -> None:
        """Make a symbolic link."""
        with _with_path(self.path / name):
            os.symlink(target, os.fsencode(name), dir_fd=self.handle)

    def target(self, name: str) -> bytes:
        """Return what a symbolic link contains."""
        with _with_path(self.path / name):
            return os.readlink(os.fsencode(name), dir_fd=self.handle)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with _with_path(self.path / name), suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.handle)

    def rename(self, name: str, to: str, into: Folder | None = None) -> None:
        """Rename a file, into another folder if one is given, and replace any file of that name."""
        into = into or self
        with _with_path(into.path / to):
            os.rename(name, to, src_dir_fd=self.handle, dst_dir_fd=into.handle)

    def link(self, name: str, to: str, into: Folder) -> None:
        """Link a file, or rename it where links are not supported. Raise FileExistsError if ``to`` exists."""
        with _with_path(into.path / to):
            try:
                os.link(name, to, src_dir_fd=self.handle, dst_dir_fd=into.handle, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_LINK or into.stat(to) is not None:
                    raise
                os.rename(name, to, src_dir_fd=self.handle, dst_dir_fd=into.handle)

    def exchange(self, name: str, other: str, into: Folder) -> bool:
        """Exchange a file with one in ``into`` atomically; return False, with nothing done, if the system cannot."""
        with _with_path(into.path / other):
            try:
                exchange(self.handle, name, into.handle, other)
            except OSError as error:
                if error.errno in _NO_EXCHANGE:
                    return False
                raise
        return True

    def create_folder(self, name: str) -> None:
        """Create a folder in this one, on disk, unless it exists."""
        with _with_path(self.path / name):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.handle)
            os.fsync(self.handle)

    def remove_empty_folder(self, name: str) -> None:
        """Remove a folder in this one if it exists and is empty."""
        with _with_path(self.path / name):
            try:
                os.rmdir(name, dir_fd=self.handle)
            except OSError as error:
                if error.errno not in {errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
                    raise

    def flush(self) -> None:
        """Write the folder's list of names to disk."""
        with _with_path(self.path):
            os.fsync(self.handle)


def exchange(folder: int, name: str, into: int, other: str) -> None:
    """Exchange two files in opened folders atomically. Raise OSError if the system cannot."""
    renameat2 = _renameat2()
    if renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    import ctypes

    if renameat2(folder, os.fsencode(name), into, os.fsencode(other), _EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    import ctypes  # Only a write needs it.

    function: Callable[[int, bytes, int, bytes, int], int] | None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return function


def _copy_mode_and_owner(handle: int, like: os.stat_result) -> None:
    # Only root may change the owner.
    with suppress(PermissionError):
        os.fchown(handle, like.st_uid, like.st_gid)
    os.fchmod(handle, stat.S_IMODE(like.st_mode))


def _set_executable(handle: int, executable: bool) -> None:
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    # Who may read a program may run it, as git has it.
    os.fchmod(handle, mode | (mode & 0o444) >> 2 if executable else mode & ~0o111)


@contextmanager
def _with_path(path: Path) -> Iterator[None]:
    """Put the whole path into errors of the operating system, and name links as links."""
    try:
        yield
    except OSError as error:
        is_link = error.errno in {errno.ELOOP, errno.ENOTDIR} and path.is_symlink()
        message = "Is a link, which is not followed" if is_link else error.strerror
        raise OSError(errno.ELOOP if is_link else error.errno, message, str(path)) from error
