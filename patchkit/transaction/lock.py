"""One patchkit at a time writes to a tree; another is told who it is.

The lock is held on a file in the ledger's folder, opened without following a link, which is why no library for
locks serves here. Whoever removes the folder removes that file last and while holding it; whoever then holds a
file that no longer has its name begins anew.
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.transaction.folder import Folder
from patchkit.transaction.ledger import FOLDER
from patchkit.transaction.store import LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ATTEMPTS = 100


@contextmanager
def exclusive(package: Path) -> Iterator[bool]:
    """Hold the lock of a package, with the ledger's folder made; yields whether the folder is new.

    TreeError if another process holds it, OSError if the system refuses.
    """
    with Folder.open(package) as above:
        fresh = above.stat(FOLDER) is None
        for _ in range(_ATTEMPTS):
            handle = _try(above, package)
            if handle is not None:
                break
        else:
            raise TreeError(f"other patchkits keep writing to {package}: wait for their end and try again.")
        try:
            yield fresh
        finally:
            os.close(handle)


def _try(above: Folder, package: Path) -> int | None:
    """Take the lock; None if its folder or file was removed in the meantime."""
    try:
        above.make(FOLDER)
        with above.below(FOLDER) as folder:
            handle = folder.open_file(LOCK, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_named(handle, folder) and _is_below(folder, above):
                    _sign(handle)
                    # What git does apart goes on without patchkit, and nobody else may begin before its end.
                    os.set_inheritable(handle, True)
                    return handle
            except BlockingIOError:
                who = _signature(handle)
                os.close(handle)
                raise TreeError(
                    f"another patchkit{who} is writing to {package}: wait for its end and try again."
                ) from None
            except BaseException:
                with suppress(OSError, TreeError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _is_named(handle, folder):
                        folder.remove(LOCK)
                os.close(handle)
                raise
            os.close(handle)
    except FileNotFoundError:
        return None
    except BaseException:
        # Not only what the system refuses: somebody may type Ctrl-C here.
        above.unmake(FOLDER)
        raise
    return None


def _sign(handle: int) -> None:
    # A full disk keeps nobody from holding the lock.
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)


def _signature(handle: int) -> str:
    said = os.pread(handle, 200, 0).decode(errors="replace")
    return f" ({said})" if said and said.isprintable() else ""


def _is_named(handle: int, folder: Folder) -> bool:
    named = folder.stat(LOCK)
    return named is not None and os.path.samestat(named, os.fstat(handle))


def _is_below(folder: Folder, above: Folder) -> bool:
    with suppress(FileNotFoundError), above.below(FOLDER) as now:
        return folder.is_same(now)
    return False
