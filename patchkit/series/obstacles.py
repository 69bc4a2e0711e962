"""Find what git would have to remove to write a file."""

from __future__ import annotations

import os
from pathlib import Path


def is_obstructed(top: Path, name: str, own: frozenset[str]) -> bool:
    """Return whether something at the path of a file or above it, other than the files in ``own``, would be removed.

    These are a folder at the path, a file or link in the place of a folder above it, and anything that is neither a
    file nor a link. One commit may have a file where the other has a folder.
    """
    above = (each.as_posix() for each in list(Path(name).parents)[:-1])
    if any(os.path.lexists(top / each) and not is_folder(top / each) and each not in own for each in above):
        return True
    path = top / name
    if not is_folder(path):
        return os.path.lexists(path) and not path.is_symlink() and not path.is_file()
    inside = (
        Path(folder, each)
        for folder, folders, files in os.walk(path)
        for each in (*files, *(each for each in folders if Path(folder, each).is_symlink()))
    )
    return any(each.relative_to(top).as_posix() not in own for each in inside)


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()
