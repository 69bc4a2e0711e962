"""Write the files of drafted patches to their folders, all of them or none."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.transaction.temporary import held, is_own, remove_abandoned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PREFIX = ".patchkit-new-"
_SECONDS = 3600
"""Age of a temporary folder without a lock from which on nobody writes to it."""


@contextmanager
def staged(folders: Mapping[Path, Mapping[str, bytes]]) -> Iterator[None]:
    """Write each folder's files under a temporary name in it, and rename the files once the body is done.

    Raise TreeError before the body if a folder cannot be written. If that or the body fails, nothing is left. What
    killed processes left in the folders is removed.
    """
    missing = {
        place for folder in folders for place in (folder, *folder.parents) if not os.path.exists(place)
    }
    waiting: dict[Path, Path] = {}
    locks = ExitStack()
    try:
        with _wrapped_os_errors("nothing was written"):
            for folder, files in folders.items():
                folder.mkdir(parents=True, exist_ok=True)
                for place in folder.glob(f"{_PREFIX}*"):
                    with suppress(OSError):
                        remove_abandoned(place, partial(shutil.rmtree, place))
                        if is_own(place) and time.time() - place.lstat().st_mtime > _SECONDS:
                            shutil.rmtree(place)
                waiting[folder] = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
                # The file system may have no locks; then what a killed process leaves stays for an hour.
                with suppress(OSError, TreeError):
                    locks.enter_context(held(waiting[folder]))
                for name, content in files.items():
                    (waiting[folder] / name).parent.mkdir(parents=True, exist_ok=True)
                    (waiting[folder] / name).write_bytes(content)
        yield
        with _wrapped_os_errors("not every patch was written"):
            for folder, place in waiting.items():
                # Written last, since a folder without it is no patch.
                for name in sorted(folders[folder], key=lambda name: name == "patch.toml"):
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (place / name).replace(folder / name)
    finally:
        for place in waiting.values():
            shutil.rmtree(place, ignore_errors=True)
        locks.close()
        for place in sorted(missing, key=lambda place: -len(place.parts)):
            with suppress(OSError):  # It has files if the body is done.
                place.rmdir()


@contextmanager
def _wrapped_os_errors(outcome: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreeError(
            f"{error.filename}: {error.strerror}, and {outcome}",
            advice="fix the cause or name another folder",
        ) from error
