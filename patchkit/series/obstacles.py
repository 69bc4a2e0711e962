"""Find what git would have to remove to write a file."""

from __future__ import annotations

import os
from pathlib import Path


def is_obstructed(top: Path, name: str, own: frozenset[str]) -> bool:
    """Return whether something at the path of a file or above it, other than the files in ``own``, would be removed.

    These are a folder at the path, a file or link in the place of a folder above it, and anything that is neither a
    file nor a link. One commit may have a file where the other has a folder.
    """
    above = (parent.as_posix() for parent in list(Path(name).parents)[:-1])
    if any(
        os.path.lexists(top / place) and not is_folder(top / place) and place not in own for place in above
    ):
        return True
    path = top / name
    if not is_folder(path):
        return os.path.lexists(path) and not path.is_symlink() and not path.is_file()
    inside = (
        Path(folder, linked)
        for folder, folders, files in os.walk(path)
        for linked in (*files, *(linked for linked in folders if Path(folder, linked).is_symlink()))
    )
    return any(path.relative_to(top).as_posix() not in own for path in inside)


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder, and no link to one."""
    return path.is_dir() and not path.is_symlink()
