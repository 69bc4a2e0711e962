"""A file put in place here is whole on disk, or the one that was there before still is.

Nothing is written into an existing file. The new one is staged beside it under a name of its own, flushed to
the disk and renamed over it, which also leaves alone what a package cache has hard-linked to the old one.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def staged(path: Path) -> Path:
    """Return where the next content of ``path`` is staged: beside it, hidden."""
    return path.with_name(f".{path.name}.patchkit")


def stage(path: Path, content: bytes, like: Path | None = None) -> None:
    """Write ``content`` to disk beside ``path``, with ``like``'s mode and owner; on failure nothing stays."""
    unstage(path)
    place = staged(path)
    try:
        with place.open("xb") as stream:
            stream.write(content)
            if like is not None:
                _take_after(place, like)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        unstage(path)
        raise


def unstage(path: Path) -> None:
    """Drop the staged content of ``path``, if there is one."""
    staged(path).unlink(missing_ok=True)


def publish(path: Path) -> None:
    """Put the staged content of ``path`` in its place."""
    os.replace(staged(path), path)
    _flush_entries(path.parent)


def replace(path: Path, content: bytes, like: Path | None = None) -> None:
    """Give ``path`` new content, with the mode and owner of ``like``."""
    stage(path, content, like)
    publish(path)


def _flush_entries(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _take_after(path: Path, like: Path) -> None:
    shutil.copymode(like, path)
    model = like.stat()
    # Only root may give a file away; anyone else keeps the file, as with every editor that saves by renaming.
    with suppress(PermissionError):
        os.chown(path, model.st_uid, model.st_gid)
