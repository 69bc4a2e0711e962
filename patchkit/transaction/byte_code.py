"""Compiled code that Python runs without comparing it with its source, which a write has to remove."""

from __future__ import annotations

import glob
import importlib.util
import os
from contextlib import suppress
from pathlib import Path

from patchkit.transaction.folder import Folder

FOLDER = "__pycache__"
_MAGIC, _HEADER = 4, 16
_UNCHECKED = (1).to_bytes(4, "little")
"""The flags of byte code that has a hash of its source that Python does not check (PEP 552)."""


def discard(folder: Folder, name: str) -> None:
    """Remove the unchecked byte code of a source, of every version of Python."""
    unchecked = _unchecked(folder, name)
    if unchecked:
        with folder.open_folder(FOLDER) as cache:
            for file_name in unchecked:
                cache.remove(file_name)


def exists(source: Path) -> bool:
    """Return whether a source has unchecked byte code."""
    with Folder.open(source.parent) as folder:
        return bool(_unchecked(folder, source.name))


def stale(source: Path, content: bytes) -> list[Path]:
    """Return the byte code that this Python runs in the place of a source with other content.

    It may be behind a link, or below the folder that PYTHONPYCACHEPREFIX names.
    """
    own = importlib.util.MAGIC_NUMBER + _UNCHECKED
    digest = importlib.util.source_hash(content)
    folders = {source.parent / FOLDER, Path(importlib.util.cache_from_source(source)).parent}
    paths = []
    for path in (path for folder in folders for path in folder.glob(f"{glob.escape(source.stem)}.*.pyc")):
        with suppress(OSError):
            header = _header(os.open(path, os.O_RDONLY)) if path.is_file() else b""
            if header.startswith(own) and header[2 * _MAGIC :] != digest:
                paths.append(path)
    return sorted(paths)


def _unchecked(folder: Folder, name: str) -> list[str]:
    """Return the names of the unchecked byte code of a source, of every version of Python."""
    try:
        cache = folder.open_folder(FOLDER)
    except OSError:  # It does not exist, or is a link, which is not followed.
        return []
    names = []
    with cache:
        stem = name.removesuffix(".py")
        for cached in cache.names() if name.endswith(".py") else ():
            is_its_own = cached.startswith(f"{stem}.") and cached.endswith(".pyc")
            with suppress(OSError):
                if is_its_own and _header(cache.open_file(cached))[_MAGIC : 2 * _MAGIC] == _UNCHECKED:
                    names.append(cached)
    return names


def _header(handle: int) -> bytes:
    with os.fdopen(handle, "rb") as file:
        return file.read(_HEADER)
