"""Lock a tree, so that one patchkit at a time writes to it.

The lock is a ``flock`` on a file in patchkit's own folder, opened without following links, which no locking library
does. That file is the last one to be removed from the folder, by the holder of the lock; a process that locked a
removed file starts again.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.transaction.folder import Folder
from patchkit.transaction.store import LOCK
from patchkit.transaction.temporary import REFUSED, refusal
from patchkit.tree.fork import OWN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ATTEMPTS = 100


@contextmanager
def exclusive(package: Path) -> Iterator[bool]:
    """Hold the lock of a package and create patchkit's own folder; yield whether the folder is new.

    Raise TreeError if another process holds the lock, OSError if the system refuses.
    """
    with Folder.open(package) as parent:
        is_new = parent.stat(OWN_FOLDER) is None
        for _ in range(_ATTEMPTS):
            handle = _try_lock(parent, package)
            if handle is not None:
                break
        else:
            raise TreeError(
                f"other patchkit processes keep writing to {package}", advice="wait for them and try again"
            )
        try:
            yield is_new
        finally:
            os.close(handle)


def _try_lock(parent: Folder, package: Path) -> int | None:
    """Take the lock; return None if its folder or file was removed in the meantime."""
    try:
        parent.create_folder(OWN_FOLDER)
        with parent.open_folder(OWN_FOLDER) as folder:
            handle, is_own = _opened(folder)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_lock_file(handle, folder) and _is_current_folder(folder, parent):
                    _write_holder(handle)
                    # git may outlive patchkit, and the lock must be held until git ends.
                    os.set_inheritable(handle, True)
                    return handle
            except BlockingIOError:
                # Another process can have the lock also of a file that was made here.
                holder = _read_holder(handle)
                os.close(handle)
                raise TreeError(
                    f"another patchkit{holder} is writing to {package}", advice="wait for it and try again"
                ) from None
            except BaseException:
                with suppress(OSError, TreeError):
                    # Where locks are refused, nobody holds one on a file that was made here.
                    if not is_own:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _is_lock_file(handle, folder):
                        folder.remove(LOCK)
                os.close(handle)
                raise
            os.close(handle)
    except FileNotFoundError:
        return None
    except BaseException as error:
        # Also for KeyboardInterrupt.
        parent.remove_empty_folder(OWN_FOLDER)
        if isinstance(error, OSError) and error.errno in REFUSED:
            raise refusal(
                package, error, "allow locks there (NFS: run lockd), or work on a local copy"
            ) from None
        raise
    return None


def _opened(folder: Folder) -> tuple[int, bool]:
    """Open the lock file; return whether it was created."""
    try:
        return folder.open_file(LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL), True
    except FileExistsError:
        return folder.open_file(LOCK, os.O_RDWR | os.O_CREAT), False


def _write_holder(handle: int) -> None:
    # The lock works without its description, which a full disk may prevent.
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)


def _read_holder(handle: int) -> str:
    holder = os.pread(handle, 200, 0).decode(errors="replace")
    return f" ({holder})" if holder and holder.isprintable() else ""


def _is_lock_file(handle: int, folder: Folder) -> bool:
    named = folder.stat(LOCK)
    return named is not None and os.path.samestat(named, os.fstat(handle))


def _is_current_folder(folder: Folder, parent: Folder) -> bool:
    with suppress(FileNotFoundError), parent.open_folder(OWN_FOLDER) as current:
        return folder.is_same(current)
    return False
