"""Read the files that a fork keeps for patchkit (configuration, patch folders), from its root on disk or in git.

A *name* is a POSIX path relative to the root. Nothing is read that a clone would not have as a regular file: no links,
pipes, paths outside the root, or paths inside ``.git``.
"""

from __future__ import annotations

import os
import posixpath
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from patchkit.errors import UsageError
from patchkit.tree.limits import MAX_READ_BYTES, read_named
from patchkit.tree.names import is_unsafe
from patchkit.tree.sglang import PLACES

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.objects import GitRepository

FILE, FOLDER, LINK, OTHER = "file", "folder", "link", "other"
_LONGEST = 1024
"""Longest accepted name, in characters."""
_GIT_KINDS = {"blob": FILE, "tree": FOLDER, "link": LINK}


class Fork(Protocol):
    """The root of a fork, read by name."""

    @property
    def projects(self) -> tuple[str, ...]:
        """The folders that may contain the project file of the package or the fork."""

    def label(self, name: str) -> str:
        """Return the location of a name, for messages."""

    def kind(self, name: str) -> str:
        """Return what a name is: ``file``, ``folder``, ``link``, ``other``, or empty if it does not exist."""

    def read(self, name: str) -> bytes:
        """Return the bytes of a file. Raise UsageError if it cannot be read or is too long."""

    def inside(self, name: str) -> list[str]:
        """Return the names of a folder's entries, sorted."""


@dataclass(frozen=True)
class DiskFork:
    """The root of a tree on disk."""

    root: Path
    package: Path

    @property
    def projects(self) -> tuple[str, ...]:
        """The root, and the folder that contains the package."""
        if not self.package.parent.is_relative_to(self.root):  # The package is the repository.
            return ("",)
        inside = self.package.parent.relative_to(self.root).as_posix()
        return tuple(dict.fromkeys(("", "" if inside == "." else inside)))

    def path(self, name: str) -> Path:
        """Return the path of a name."""
        return self.root / name

    def label(self, name: str) -> str:
        """Return the path of a name, for messages."""
        return str(self.path(name))

    def kind(self, name: str) -> str:
        """Return what a name is; a path below a link does not exist."""
        found = FOLDER
        for place in (*reversed(PurePosixPath(name).parents[:-1]), PurePosixPath(name)):
            if found != FOLDER:
                return ""
            try:
                mode = os.lstat(self.root / place).st_mode
            except FileNotFoundError:
                return ""
            except OSError as error:
                raise self._unreadable(name, error) from None
            found = LINK if stat.S_ISLNK(mode) else FOLDER if stat.S_ISDIR(mode) else OTHER
            if stat.S_ISREG(mode):
                found = FILE
        return found

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        return read_named(self.path(name))

    def inside(self, name: str) -> list[str]:
        """Return the names of a folder's entries, sorted."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError as error:
            raise self._unreadable(name, error) from None

    def _unreadable(self, name: str, error: OSError) -> UsageError:
        return UsageError(
            f"{self.label(name)} cannot be read ({error.strerror})", advice="make it readable and try again"
        )


@dataclass(frozen=True)
class GitFork:
    """The root of a commit in git's object store."""

    repository: GitRepository
    commit: str

    @property
    def projects(self) -> tuple[str, ...]:
        """The root, and the folder that contains the package."""
        package = next((place for place in PLACES if self.kind(place) == FOLDER), "")
        return tuple(dict.fromkeys(("", posixpath.dirname(package))))

    def label(self, name: str) -> str:
        """Return the repository, the commit and the name, as ``git show`` spells them."""
        return f"{self.repository.path} {self.commit}:{name}"

    @cached_property
    def _top(self) -> str:
        top = self.repository.object(f"{self.commit}^{{tree}}")
        return top[0] if top is not None else ""

    def entry(self, name: str) -> tuple[str, str]:
        """Return what a name is and its object id, both empty if it does not exist."""
        if not name:
            return FOLDER, self._top
        found = self.repository.at(self._top, name) if self._top else None
        return (_GIT_KINDS.get(found.kind, OTHER), found.id) if found is not None else ("", "")

    def kind(self, name: str) -> str:
        """Return what a name is."""
        return self.entry(name)[0]

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        blob = self.entry(name)[1]
        found = self.repository.object(blob) if self.repository.size(blob) <= MAX_READ_BYTES else None
        if found is None:
            raise UsageError(
                f"{self.label(name)} is missing, or has more than {MAX_READ_BYTES // 2**20} MiB",
                advice="leave the ref out",
            )
        return found[1]

    def inside(self, name: str) -> list[str]:
        """Return the names of a folder's entries, sorted."""
        return sorted(self.repository.entries(self.entry(name)[1]))


def checked(name: str) -> str:
    """Return a name in its shortest form. Raise ValueError if it leads out of the root."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if len(name) > _LONGEST or name.startswith("/") or any(map(is_unsafe, parts)) or not name.isprintable():
        raise ValueError(f"{name[:_LONGEST]!r} does not lead to a place inside the repository")
    return "/".join(parts)
