"""Hold the lock of a temporary folder, so that the folder of a process that was killed can be removed later."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from patchkit.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REFUSED = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ESTALE})
"""The errors of a file system that has no locks."""
_LOCK, _NEW_LOCK = "lock", "fresh"


def refusal(folder: Path, error: OSError, remedy: str) -> TreeError:
    """Return the error that a folder's file system has no locks."""
    return TreeError(
        f"{folder} is on a file system that refuses locks ({error.strerror}), and patchkit writes only with a lock",
        advice=f"nothing was changed; {remedy}",
    )


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a new folder while its process runs.

    Raise TreeError if its file system has no locks, OSError if the system refuses for another reason.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(folder / _NEW_LOCK))
        except OSError as error:
            if error.errno not in REFUSED:
                raise
            raise refusal(folder.parent, error, "set TMPDIR to a local folder") from None
        # `remove_abandoned` takes any lock that it finds, so this one gets its name only after it is held.
        (folder / _NEW_LOCK).rename(folder / _LOCK)
        yield


def remove_abandoned(folder: Path, remove: Callable[[], None]) -> None:
    """Call ``remove`` if a folder's lock is held by no process; raise BlockingIOError if it is held.

    Nothing is done for a folder without a lock, or of another user.
    """
    if is_own(folder) and _is_kind(folder / _LOCK, stat.S_ISREG):
        with _locked(folder / _LOCK):
            remove()


def is_own(folder: Path) -> bool:
    """Return whether a folder, which is no link, is this user's."""
    with suppress(OSError):  # Its owner may have removed it meanwhile.
        return _is_kind(folder, stat.S_ISDIR) and folder.lstat().st_uid == os.geteuid()
    return False


def _is_kind(path: Path, kind: Callable[[int], bool]) -> bool:
    with suppress(OSError):
        return kind(path.lstat().st_mode)
    return False


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Hold a lock. Raise BlockingIOError if another process does."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
