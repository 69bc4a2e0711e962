"""Compiled code that Python runs without comparing it with its source, which a write has to remove."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from patchkit.transaction.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "__pycache__"
_MAGIC, _HEADER = 4, 16
_UNCHECKED = (1).to_bytes(4, "little")
"""The flags of byte code that has a hash of its source that Python does not check (PEP 552)."""


def discard(folder: Folder, name: str) -> None:
    """Remove the unchecked byte code of a source, of every version of Python."""
    found = _unchecked(folder, name)
    if found:
        with folder.open_folder(FOLDER) as cache:
            for each in found:
                cache.remove(each)


def exists(source: Path) -> bool:
    """Return whether a source has unchecked byte code."""
    with Folder.open(source.parent) as folder:
        return bool(_unchecked(folder, source.name))


def stale(source: Path, content: bytes) -> list[str]:
    """Return the names of the byte code that this Python runs in the place of a source with other content."""
    own = importlib.util.MAGIC_NUMBER, importlib.util.source_hash(content)
    with Folder.open(source.parent) as folder:
        found = _unchecked(folder, source.name)
    return [
        f"{FOLDER}/{name}" for name, (magic, digest) in found.items() if magic == own[0] and digest != own[1]
    ]


def _unchecked(folder: Folder, name: str) -> dict[str, tuple[bytes, bytes]]:
    """Return the unchecked byte code of a source: its magic number and the hash of the source."""
    try:
        cache = folder.open_folder(FOLDER)
    except OSError:  # It does not exist, or is a link, which is not followed.
        return {}
    found = {}
    with cache:
        stem = name.removesuffix(".py")
        for each in cache.names() if name.endswith(".py") else ():
            if each.startswith(f"{stem}.") and each.endswith(".pyc"):
                header = _header(cache, each)
                if header[_MAGIC : 2 * _MAGIC] == _UNCHECKED:
                    found[each] = (header[:_MAGIC], header[2 * _MAGIC :])
    return found


def _header(cache: Folder, name: str) -> bytes:
    try:
        handle = cache.open_file(name)
    except OSError:
        return b""
    try:
        return os.read(handle, _HEADER)
    finally:
        os.close(handle)
