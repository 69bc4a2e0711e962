"""Read sglang trees from git's objects, without a checkout."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import TreeError, UsageError
from patchkit.tree import modes, project
from patchkit.tree.fork import FILE, FOLDER, LINK, OTHER, Level, found_record, levels
from patchkit.tree.git import git, object_reader, place_of, require_repository, tag_version
from patchkit.tree.limits import MAX_READ_BYTES
from patchkit.tree.names import is_unsafe
from patchkit.tree.sglang import (
    NAME,
    PARENTS,
    PLACES,
    SERVING,
    name_among,
    only_package,
    own_names,
    stated_version,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


class MissingObjectError(TreeError):
    """An object that a tree refers to is missing from the object store."""


class Entry(NamedTuple):
    """One entry of a tree object: its kind, as in ``Fork.kind`` (``other`` for a submodule), and id."""

    kind: str
    id: str
    is_program: bool = False


_KINDS = {b"40000": FOLDER, b"120000": LINK, b"160000": OTHER}
_MODES = {FOLDER: modes.FOLDER, LINK: modes.LINK, OTHER: modes.SUBMODULE}


class GitRepository:
    """The object store of a git repository, bare or not, read through one long-lived process."""

    def __init__(self, path: Path, advice: str = "name a clone or a bare repository") -> None:
        """Start the reading process; TreeError with this advice if ``path`` is in no git repository.

        Close it, or use ``with``.
        """
        self.path = path
        require_repository(path, advice)
        self._process = object_reader(path)
        self._entries: dict[str, Mapping[str, Entry]] = {}
        self._own_names: dict[str, frozenset[str]] = {}

    def __enter__(self) -> GitRepository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reading process."""
        self._process.communicate()

    @cached_property
    def place(self) -> str:
        """The path of the named folder inside the repository, ``""`` for its top."""
        return place_of(self.path)

    def object(self, name: str, kind: str = "") -> tuple[str, bytes] | None:
        """Return the id and content of the object that ``name`` (an id or a revision) denotes, or None.

        None as well if a ``kind`` is given, such as blob, and it is of another.
        """
        if "\n" in name:
            return None
        requests, replies = self._process.stdin, self._process.stdout
        if requests is None or replies is None or requests.closed:
            raise TreeError(f"{self.path} was closed", advice="open it again")
        try:
            requests.write(name.encode(errors="surrogateescape") + b"\n")
            requests.flush()
        except BrokenPipeError:
            raise TreeError(f"git stopped reading {self.path}", advice="run git fsck there") from None
        line = replies.readline()
        if not line:  # Git exits at a damaged object; later requests need a new process.
            self._process.communicate()
            self._process = object_reader(self.path)
        header = line.rsplit(b" ", 2)
        if len(header) != 3 or not header[2].strip().isdigit():
            return None
        content = replies.read(int(header[2]))
        replies.read(1)
        return (header[0].decode(), content) if kind.encode() in {b"", header[1]} else None

    def size(self, identifier: str) -> int:
        """Return the size of an object without reading it, 0 if it is missing."""
        size = git(self.path, "cat-file", "-s", identifier).stdout.strip()
        return int(size) if size.isdigit() else 0

    def entries(self, tree: str) -> Mapping[str, Entry]:
        """Return the entries of a tree object by name; each tree is read once.

        Raise TreeError if a name leads out of the folder; git itself never writes such a name.
        """
        if tree not in self._entries:
            content = self.object(tree)
            if content is None:
                raise MissingObjectError(
                    f"{self.path} lacks the tree object {tree}", advice="run git fsck there"
                )
            entries = dict(_entries(content[1], len(tree) // 2))
            unsafe = next(filter(is_unsafe, entries), None)
            if unsafe is not None:
                raise TreeError(
                    f"{self.path} has a tree object {tree} with an entry named {unsafe!r}, which leads out of "
                    "the folder",
                    advice="run git fsck there, and do not trust the repository's source",
                )
            self._entries[tree] = entries
        return self._entries[tree]

    def at(self, tree: str, path: str) -> Entry | None:
        """Return the entry at a path below a tree object, or None."""
        entry = Entry(FOLDER, tree)
        for part in path.split("/") if path else ():
            below = self.entries(entry.id).get(part) if entry.kind == FOLDER else None
            if below is None:
                return None
            entry = below
        return entry

    def own_names(self, tree: str) -> frozenset[str]:
        """Return the package names under which the sources below a tree object import their serving package."""
        if tree not in self._own_names:
            entries = self.entries(tree).items()
            files = (entry.id for name, entry in entries if entry.kind == FILE and name.endswith(".py"))
            folders = (
                entry.id for name, entry in entries if entry.kind == FOLDER and not name.startswith(".")
            )
            names = own_names((self.object(file) or ("", b""))[1] for file in files)
            names = names.union(*map(self.own_names, folders))
            self._own_names[tree] = names
        return self._own_names[tree]


class GitTree:
    """The tree at one ref of a git object store, without a checkout."""

    def __init__(self, repository: GitRepository, ref: str, near: str | None = None) -> None:
        """Find the package at ``ref`` (commit, tag or branch); TreeError if there is no such ref or package.

        The search starts at ``near``, a path in the repository, and goes up from there. ``near`` defaults to the
        folder that was named when the repository was opened.
        """
        self.repository = repository
        self.ref = ref
        top = repository.object(f"{ref}^{{tree}}")
        if top is None:
            raise TreeError(
                f"{repository.path} has no ref {ref}", advice="git fetch it there, or name another ref"
            )
        place = self._place(top[0], repository.place if near is None else near)
        if place is None:
            raise TreeError(
                f"{ref} of {repository.path} is not an sglang tree: it has no python/sglang",
                advice="name the package folder if it lies deeper",
            )
        self.place = place
        self._top = top[0]
        package = repository.at(top[0], place)
        self.id = package.id if package else ""

    def _place(self, top: str, near: str) -> str | None:
        parts = near.split("/") if near else []
        for depth in range(len(parts), -1, -1):
            around = "/".join(parts[:depth])
            for place in (*PLACES, ""):
                if self._is_package(top, posixpath.join(around, place).rstrip("/")):
                    return posixpath.join(around, place).rstrip("/")
            for parent in PARENTS:
                folder = posixpath.join(around, parent).rstrip("/")
                entry = self.repository.at(top, folder)
                below = self.repository.entries(entry.id) if entry and entry.kind == FOLDER else {}
                named = (posixpath.join(folder, name) for name in below if not name.startswith("."))
                renamed = only_package(
                    (place for place in named if self._is_package(top, place)),
                    f"{self.ref} of {self.repository.path}",
                )
                if renamed is not None:
                    return renamed
        return None

    def _is_package(self, top: str, place: str) -> bool:
        entry = self.repository.at(top, place)
        inside = self.repository.entries(entry.id) if entry and entry.kind == FOLDER else {}
        return "__init__.py" in inside and SERVING in inside and inside[SERVING].kind == FOLDER

    @property
    def package_label(self) -> str:
        """The repository, the ref and the package folder, as ``git show`` spells them."""
        return f"{self.repository.path} {self.ref}:{self.place}"

    @cached_property
    def version(self) -> str | None:
        """The release stated by the package, by its project file, or by a tag before the ref."""
        stated = stated_version(self.read, self._project(posixpath.dirname(self.place)))
        return stated if stated is not None else tag_version(self.repository.path, self.ref)

    @cached_property
    def name(self) -> str:
        """The name under which the package's files import one another; TreeError if there are several."""
        if posixpath.basename(self.place) == NAME:
            return NAME
        serving = self.repository.at(self.id, SERVING)
        names = self.repository.own_names(serving.id) if serving else frozenset[str]()
        return name_among(names, self.package_label)

    @cached_property
    def line_length(self) -> int:
        """The line length set by the package's project file, or else by the root's."""
        return project.line_length(map(self._project, (posixpath.dirname(self.place), "")))

    def blob(self, file: str) -> str | None:
        """Return the blob id of ``file``, following links inside the package, or None."""
        seen = set()
        entry = self.repository.at(self.id, file)
        while entry is not None and entry.kind == LINK and file not in seen:
            seen.add(file)
            link = os.fsdecode(self._content(entry.id, file))
            file = posixpath.normpath(posixpath.join(posixpath.dirname(file), link))
            entry = self.repository.at(self.id, file)
        return entry.id if entry is not None and entry.kind == FILE else None

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, following links inside the package, or None if it does not exist."""
        blob = self.blob(file)
        return None if blob is None else self._content(blob, file)

    def entry(self, file: str) -> tuple[str, bytes | None]:
        """Return git's mode of what is at a path, inside the package or not, and the content of a file or link."""
        entry = self.repository.at(self._top, posixpath.normpath(posixpath.join(self.place, file)))
        if entry is None:
            return modes.NO_FILE, None
        mode = _MODES.get(entry.kind, modes.PROGRAM if entry.is_program else modes.PLAIN)
        return mode, self._content(entry.id, file) if entry.kind in {FILE, LINK} else None

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files below ``folder`` whose names end in ``suffix``, sorted."""
        entry = self.repository.at(self.id, folder) if folder else Entry(FOLDER, self.id)
        if entry is None or entry.kind != FOLDER:
            return []
        start = f"{folder}/" if folder else ""
        return sorted(start + name for name in self._below(entry.id) if name.endswith(suffix))

    def unread(self, folder: str) -> list[str]:
        """Return the links below ``folder`` that do not lead to a file of the package, sorted."""
        entries = ((file, self.repository.at(self.id, file)) for file in self.files(folder, ""))
        links = (file for file, entry in entries if entry is not None and entry.kind == LINK)
        return [file for file in links if self.read(file) is None]

    def record(self) -> dict[str, bytes]:
        """Return the files of the record. Raise TreeError if one cannot be read, or the folder is none."""
        return self._found_record()[1]

    @property
    def record_place(self) -> str:
        """The name of the record's folder, or that which it would have."""
        return self._found_record()[0]

    def _found_record(self) -> tuple[str, dict[str, bytes]]:
        return found_record(GitFork(self.repository, self.ref, self.place), self.place)

    def _project(self, folder: str) -> bytes | None:
        blob = self.repository.object(f"{self.ref}:{posixpath.join(folder, project.FILE)}")
        return blob[1] if blob else None

    def _below(self, tree: str) -> Iterator[str]:
        for name, entry in self.repository.entries(tree).items():
            if entry.kind in (FILE, LINK):
                yield name
            elif entry.kind == FOLDER and not name.startswith("."):
                yield from (f"{name}/{below}" for below in self._below(entry.id))

    def _content(self, blob: str, file: str) -> bytes:
        entry = self.repository.object(blob)
        if entry is None:
            raise MissingObjectError(
                f"{self.package_label}/{file} is missing from the object store", advice="run git fsck there"
            )
        return entry[1]


@dataclass(frozen=True)
class GitFork:
    """A commit in git's object store, with the place of its package."""

    repository: GitRepository
    commit: str
    package: str

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels at which the package is configured, nearest first."""
        return levels(self.package)

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
        entry = self.repository.at(self._top, name) if self._top else None
        return (entry.kind, entry.id) if entry is not None else ("", "")

    def kind(self, name: str) -> str:
        """Return what a name is."""
        return self.entry(name)[0]

    def read(self, name: str) -> bytes:
        """Return the bytes of a file."""
        blob = self.entry(name)[1]
        stored = self.repository.object(blob) if self.repository.size(blob) <= MAX_READ_BYTES else None
        if stored is None:
            raise UsageError(
                f"{self.label(name)} is missing, or has more than {MAX_READ_BYTES // 2**20} MiB",
                advice="leave the ref out",
            )
        return stored[1]

    def inside(self, name: str) -> list[str]:
        """Return the names of a folder's entries, sorted."""
        return sorted(self.repository.entries(self.entry(name)[1]))


def _entries(content: bytes, width: int) -> Iterator[tuple[str, Entry]]:
    """Parse a tree object: each entry is ``<mode> <name>``, a null byte, and ``width`` bytes of id."""
    position = 0
    while position < len(content):
        space, null = content.index(b" ", position), content.index(b"\0", position)
        name = os.fsdecode(content[space + 1 : null])
        position, mode = null + 1 + width, content[position:space]
        yield (
            name,
            Entry(_KINDS.get(mode, FILE), content[null + 1 : position].hex(), mode == modes.PROGRAM.encode()),
        )
