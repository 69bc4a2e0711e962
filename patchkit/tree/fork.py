"""Read the files that a fork keeps for patchkit (configuration, patch folders), from its repository on disk or in git.

A *name* is a POSIX path relative to the top of the repository. Nothing is read that a clone would not have as a regular
file: no links, pipes, paths outside the repository, or paths inside ``.git``.
"""

from __future__ import annotations

import os
import posixpath
import stat
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Protocol

from patchkit.errors import TreeError, UsageError
from patchkit.tree import project
from patchkit.tree.limits import read_named
from patchkit.tree.names import is_unsafe
from patchkit.tree.sglang import PARENTS

if TYPE_CHECKING:
    from pathlib import Path


FILE, FOLDER, LINK, OTHER = "file", "folder", "link", "other"
_LONGEST = 1024
"""Longest accepted name, in characters."""
_INSTALLED = ("site-packages", "dist-packages")
OWN_FOLDER = ".patchkit"
"""The folder in a package in which patchkit keeps what git does not hold."""
RECORD = "patchkit.lock"
"""The folder of the files that say what patchkit changed, one for each patch or port."""
_RECORDED = ".toml"


class Level(NamedTuple):
    """A folder to which the paths of a configuration are relative, and the folders that may contain that file."""

    root: str
    folders: tuple[str, ...]


CONFIGURATION = "patchkit.toml"
"""The file that configures patchkit for a fork; a project file can have the same settings."""


def levels(package: str) -> tuple[Level, ...]:
    """Return the levels at which a package is configured, from its folder up to the top of the repository.

    sglang's folder ``python`` is at the level of its checkout. An installed package has only the level of the folder
    that contains it: an environment is no part of the repository around it.
    """
    above = posixpath.dirname(package)
    if posixpath.basename(above) in _INSTALLED:
        return (Level(above, (above,)),)
    inner = above if posixpath.basename(above) == PARENTS[0] else None
    levels_found = []
    for folder in (package, *map(str, PurePosixPath(package).parents)):
        root = "" if folder == "." else folder
        if root != inner:
            levels_found.append(
                Level(root, (root, inner) if inner and root == posixpath.dirname(inner) else (root,))
            )
    return tuple(levels_found)


def places(fork: Fork) -> tuple[str, ...]:
    """Return the names of the files that may contain a fork's configuration."""
    return tuple(
        posixpath.join(folder, file)
        for level in fork.levels
        for file in (CONFIGURATION, project.FILE)
        for folder in level.folders
    )


def record_places(fork: Fork, package: str) -> tuple[str, ...]:
    """Return the names that the record's folder may have, the first one that of a tracked package.

    It lies beside the configuration if that is sglang's own, else at the top of sglang, which can be a folder of a
    larger repository; of a package that git does not track it lies in the package, in patchkit's own folder.
    """
    own = fork.levels[:2]
    folders = [folder for level in own for folder in level.folders]
    configured = [f for f in folders if fork.kind(posixpath.join(f, CONFIGURATION)) == FILE]
    ordered = dict.fromkeys((*configured, own[-1].root, *folders))
    return tuple(posixpath.join(folder, RECORD) for folder in (*ordered, posixpath.join(package, OWN_FOLDER)))


def found_record(fork: Fork, package: str) -> tuple[str, dict[str, bytes]]:
    """Return the record's folder, or the first that it may have, and the bytes of its files by name.

    Raise TreeError if something else is in its place, or a file in it cannot be read.
    """
    places = record_places(fork, package)
    records = ((place, _recorded(fork, place)) for place in places)
    return next(((place, files) for place, files in records if files), (places[0], {}))


def _recorded(fork: Fork, place: str) -> dict[str, bytes]:
    kind = fork.kind(place)
    if kind not in (FOLDER, ""):
        raise TreeError(f"{fork.label(place)} is a link or not a folder", advice="move it away and try again")
    files: dict[str, bytes] = {}
    try:
        for file in filter(is_recorded, fork.inside(place) if kind else ()):
            name = posixpath.join(place, file)
            kind = fork.kind(name)
            if not kind:  # Another process has reverted that patch since the folder was listed.
                continue
            if kind != FILE:
                raise TreeError(
                    f"{fork.label(name)} is a link or not a file", advice="restore it with git, or remove it"
                )
            try:
                files[file] = fork.read(name)
            except UsageError:
                if fork.kind(name):
                    raise
    except UsageError as error:
        raise TreeError(
            error.what, where=error.where, advice="make it readable, restore it with git, or remove it"
        ) from None
    return files


def is_recorded(file: str) -> bool:
    """Return whether a file in the record's folder is one of the record's; others are left alone."""
    return file.endswith(_RECORDED) and not file.startswith(".")


def is_of_record(name: str) -> bool:
    """Return whether a name is that of a file in a record's folder."""
    return posixpath.basename(posixpath.dirname(name)) == RECORD


class Fork(Protocol):
    """The repository of a fork, read by name."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which the package is configured, nearest first."""

    def label(self, name: str) -> str:
        """Return the location of a name, for messages."""

    def kind(self, name: str) -> str:
        """Return what a name is: ``file``, ``folder``, ``link``, ``other``, or empty if it does not exist."""

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raise UsageError if it cannot be read or is too long."""

    def inside(self, name: str) -> list[str]:
        """Return the names of a folder's entries, sorted."""


class DiskFork(NamedTuple):
    """The repository that contains a tree on disk, or the root of a tree outside a repository.

    A tree is opened only if git too takes ``top`` for the top of the repository, since ``.git`` can be another user's.
    """

    top: Path
    package: Path
    is_repository: bool

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which the package is configured; outside a repository only the root."""
        inside = self.package.relative_to(self.top).as_posix()
        inner = levels("" if inside == "." else inside)
        return inner if self.is_repository else inner[-1:]

    def path(self, name: str) -> Path:
        """Return the path of a name."""
        return self.top / name

    def label(self, name: str) -> str:
        """Return the path of a name, for messages."""
        return str(self.path(name))

    def kind(self, name: str) -> str:
        """Return what a name is; a path below a link does not exist."""
        result, place = FOLDER, os.fspath(self.top)
        for part in PurePosixPath(name).parts or (".",):
            if result != FOLDER:
                return ""
            place = os.path.join(place, part)
            try:
                mode = os.lstat(place).st_mode
            except FileNotFoundError:
                return ""
            except OSError as error:
                raise self._unreadable(name, error) from None
            result = LINK if stat.S_ISLNK(mode) else FOLDER if stat.S_ISDIR(mode) else OTHER
            if stat.S_ISREG(mode):
                result = FILE
        return result

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raise UsageError if it cannot be read or is too long."""
        return read_named(self.path(name))

    def inside(self, name: str) -> list[str]:
        """Return the names of a folder's entries, sorted; none if another process has removed it."""
        try:
            return sorted(os.listdir(self.path(name)))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreadable(name, error) from None

    def _unreadable(self, name: str, error: OSError) -> UsageError:
        return UsageError(
            f"{self.label(name)} cannot be read ({error.strerror})", advice="make it readable and try again"
        )


def checked(name: str) -> str:
    """Return a name in its shortest form. Raise ValueError if it leads out of the root."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if len(name) > _LONGEST or name.startswith("/") or any(map(is_unsafe, parts)) or not name.isprintable():
        raise ValueError(f"{name[:_LONGEST]!r} does not lead to a place inside the repository")
    return "/".join(parts)
