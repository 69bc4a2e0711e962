"""The files of sglang's repository that are outside its package, named from the package: ``../../test/run.py``."""

from __future__ import annotations

import os
import posixpath
import stat
from contextlib import suppress

from patchkit.tree.git import git, is_set, top_around
from patchkit.tree.modes import FILES, FOLDER, LINK, NO_FILE, PLAIN, PROGRAM
from patchkit.tree.names import is_outside
from patchkit.tree.objects import GitTree
from patchkit.tree.sglang import PLACES
from patchkit.tree.tree import CheckoutTree, OverlayTree, Tree, reading

_UP = "../"


def shown(file: str) -> str:
    """Return a path from the package as people write it; one outside is shown from the top of sglang's repository."""
    ups = file.count(_UP)
    return "/".join([*PLACES[0].split("/")[: max(0, 2 - ups)], file.removeprefix(_UP * ups)]) if ups else file


def has_outside(tree: Tree, file: str) -> bool:
    """Return whether a tree could have a file: inside the package, or it is a checkout, or a commit, of that depth."""
    if not is_outside(file):
        return True
    if isinstance(tree, OverlayTree):
        return has_outside(tree.below, file)
    if isinstance(tree, GitTree):
        return not posixpath.normpath(posixpath.join(tree.place, file)).startswith(_UP)
    if not isinstance(tree, CheckoutTree):
        return False
    top = top_around(tree.package)
    return top is not None and os.path.normpath(tree.package / file).startswith(f"{top}{os.sep}")


def keeps_modes(tree: Tree) -> bool:
    """Return whether git goes by the permission to execute a file, which some file systems do not keep."""
    if not isinstance(tree, CheckoutTree) or top_around(tree.package) is None:
        return True
    return is_set(tree.package, "core.fileMode", default=True)


def content(tree: Tree, file: str) -> bytes | None:
    """Return the bytes of a file inside or outside the package, or None if the tree has no such file."""
    if not is_outside(file):
        return tree.read(file)
    if isinstance(tree, OverlayTree):
        return tree.contents[file] if file in tree.contents else content(tree.below, file)
    if isinstance(tree, GitTree):
        mode, data = tree.entry(file)
        return data if mode in FILES else None
    return tree.read(file) if has_outside(tree, file) else None


def entry(tree: Tree, file: str) -> tuple[str, bytes | None]:
    """Return git's mode of what a tree has at a path, inside the package or not, and its content: a link's target.

    The mode is ``NO_FILE`` if nothing is there.
    """
    if isinstance(tree, OverlayTree):
        mode, data = entry(tree.below, file)
        if file not in tree.contents:
            return mode, data
        text = tree.contents[file]
        mode = tree.modes.get(file, mode if mode in FILES else PLAIN)
        return (NO_FILE, None) if text is None else (mode, text)
    if isinstance(tree, GitTree):
        return tree.entry(file)
    path = tree.package / file if isinstance(tree, CheckoutTree) and has_outside(tree, file) else None
    if path is None:
        text = content(tree, file)
        return (NO_FILE if text is None else PLAIN), text
    with reading(path), suppress(FileNotFoundError, NotADirectoryError):
        found_mode = os.lstat(path).st_mode
        if stat.S_ISLNK(found_mode):
            return LINK, os.readlink(os.fsencode(path))
        if stat.S_ISDIR(found_mode):
            return FOLDER, None
        return (PROGRAM if found_mode & stat.S_IXUSR else PLAIN), tree.read(file)
    return NO_FILE, None


def namesakes(tree: Tree, file: str) -> list[str]:
    """Return the files outside the package that have the same name as one, in another folder."""
    if isinstance(tree, OverlayTree):
        return [name for name in namesakes(tree.below, file) if tree.contents.get(name, b"") is not None]
    name = posixpath.basename(file)
    if isinstance(tree, GitTree):
        named, place = tree.repository.path, tree.place
        words: tuple[str, ...] = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree.ref)
    elif isinstance(tree, CheckoutTree) and (top := top_around(tree.package)) is not None:
        named, place = top, os.path.relpath(tree.package, top)
        words = ("ls-files", "-z")
    else:
        return []
    listed = os.fsdecode(git(named, *words).stdout).split("\0")
    candidates = (posixpath.relpath(path, place) for path in listed if posixpath.basename(path) == name)
    return sorted(path for path in candidates if is_outside(path))
