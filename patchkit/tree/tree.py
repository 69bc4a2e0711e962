"""Read an sglang tree's files without importing or running any of them.

A *file* is a POSIX path relative to the package folder (``srt/server_args.py``), so that a patch names the same file
in a checkout, in site-packages and in a ref of a git object store.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import posixpath
import re
import shlex
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from patchkit.errors import RefusedRepositoryError, TreeError
from patchkit.tree import project, sglang
from patchkit.tree.checkout import Checkout, lines_matching, searched
from patchkit.tree.fork import DiskFork, found_record, places, record_places
from patchkit.tree.git import is_bare, tag_version, top_around
from patchkit.tree.limits import MAX_READ_BYTES, NoFileError, TooLongError, read_whole
from patchkit.tree.modes import LINK
from patchkit.tree.sglang import NAME, PLACES, SERVING, stated_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_DEFINITION = r"^(class|def|async[ \t]+def)[ \t]"
_UNFINISHED = re.compile(rb"^class[ \t][^(\n]*\([^)\n]*$", re.MULTILINE)
"""A header of a class that goes on in the next line."""

Contents: TypeAlias = "Mapping[str, bytes | None]"
"""Bytes by file, None if it does not exist."""


class Tree(Protocol):
    """An sglang source tree, read-only."""

    @property
    def package_label(self) -> str:
        """The location of the package folder, for messages."""

    @property
    def version(self) -> str | None:
        """The tree's release, such as ``0.5.12.post1``; None if it is unknown."""

    @property
    def name(self) -> str:
        """The name under which the package's files import one another."""

    @property
    def line_length(self) -> int:
        """The line length of the tree's formatter."""

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, or None if there is no such file."""

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files at any depth below ``folder`` whose names end in ``suffix``, sorted.

        ``""`` is the package folder itself. Folders whose name starts with a dot are skipped.
        """

    def unread(self, folder: str) -> list[str]:
        """Return what ``files`` cannot list below ``folder``: linked and unreadable folders, sorted."""

    def record(self) -> dict[str, bytes]:
        """Return the files of the record of what patchkit changed by name, none if there is no record."""


@dataclass(frozen=True)
class CheckoutTree:
    """A tree on disk: a git checkout, an unpacked wheel or an installed package."""

    root: Path
    package: Path

    @property
    def package_label(self) -> str:
        """The package folder's path."""
        return str(self.package)

    @property
    def argument(self) -> str:
        """The tree as an argument of a command in a shell."""
        return shlex.quote(str(self.root))

    @cached_property
    def version(self) -> str | None:
        """The release stated by the package, its project file, its metadata, or the last tag before HEAD."""
        stated = stated_version(self.read, _read(self.package.parent / project.FILE))
        if stated is not None:
            return stated
        for folder, file in sglang.METADATA:
            for path in sorted(self.package.parent.glob(folder)):
                installed = sglang.metadata_version(_read(path / file) or b"")
                if installed is not None:
                    return installed
        return tag_version(self.root, "HEAD") if (self.root / ".git").exists() else None

    @cached_property
    def name(self) -> str:
        """The name under which the package's files import one another; TreeError if there are several."""
        if self.package.name == NAME:
            return NAME
        names = sglang.own_names(self.read(file) or b"" for file in self.files(SERVING))
        return sglang.name_among(names, str(self.package))

    @cached_property
    def line_length(self) -> int:
        """The line length set by the package's project file, or else by the root's."""
        return project.line_length(
            _read(folder / project.FILE) for folder in (self.package.parent, self.root)
        )

    @property
    def fork(self) -> DiskFork:
        """The repository that contains the package, or the root outside one, with the fork's configuration."""
        top = top_around(self.package)
        return DiskFork(top or self.root, self.package, is_repository=top is not None)

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, or None if there is no such file. Raise TreeError if it is unreadable."""
        return _read(self._path(file))

    def _path(self, file: str) -> str:
        return f"{self.package}/{file}"

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files at any depth below ``folder`` that end in ``suffix``, sorted."""
        paths = []
        top = self._path("")
        for where, folders, names in os.walk(top + folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            start = posixpath.join(where.removeprefix(top), "")
            paths += [start + name for name in names if name.endswith(suffix)]
        return sorted(paths)

    def containing(self, *texts: str) -> list[str]:
        """Return the Python files that contain one of the texts, which git finds in a checkout."""
        names = searched(self.package, texts) if top_around(self.package) is not None else None
        return _containing(self, self.files("") if names is None else self._python_files(names), texts)

    def definitions(self) -> dict[str, bytes] | None:
        """Return the lines that begin a top-level class or function of each file of the serving package.

        A file with the header of a class in several lines is there whole. None if git cannot tell.
        """
        top = self.package / SERVING
        lines = lines_matching(top, _DEFINITION) if top_around(self.package) is not None else None
        if lines is None:
            return None
        texts = {f"{SERVING}/{file}": b"\n".join(lines[file]) for file in self._python_files(lines)}
        return {
            file: (self.read(file) or b"") if _UNFINISHED.search(text) else text
            for file, text in texts.items()
        }

    def _python_files(self, names: Iterable[str]) -> list[str]:
        return sorted(name for name in names if name.endswith(".py") and "/." not in f"/{name}")

    def unread(self, folder: str) -> list[str]:
        """Return the folders below ``folder`` that are links or cannot be read, sorted."""
        skipped: list[str] = []
        unreadable: list[OSError] = []
        for where, folders, _ in os.walk(self.package / folder, onerror=unreadable.append):
            folders[:] = [name for name in folders if not name.startswith(".")]
            skipped += [
                path for name in folders if (path := os.path.join(where, name)) and os.path.islink(path)
            ]
        skipped += [os.fsdecode(error.filename) for error in unreadable]
        return sorted(Path(path).relative_to(self.package).as_posix() for path in skipped)

    @property
    def record_paths(self) -> tuple[Path, ...]:
        """The folders that the record may have: first that of a tracked package, last that of another."""
        fork = self.fork
        return tuple(map(fork.path, record_places(fork, self.package.relative_to(fork.top).as_posix())))

    @property
    def record_path(self) -> Path | None:
        """The folder of the record, None without one. Raise TreeError if it is none, or a file in it is unreadable."""
        place, files = self._found_record()
        return self.fork.path(place) if files else None

    def record(self) -> dict[str, bytes]:
        """Return the files of the record. Raise TreeError if one cannot be read, or the folder is none."""
        return self._found_record()[1]

    def _found_record(self) -> tuple[str, dict[str, bytes]]:
        fork = self.fork
        return found_record(fork, self.package.relative_to(fork.top).as_posix())


@dataclass(frozen=True)
class ReadTree(CheckoutTree):
    """A tree on disk that reads each file once, and detects whether what was read has changed since."""

    _texts: dict[str, bytes | None] = field(default_factory=dict, compare=False, repr=False)
    _stamps: dict[str, tuple[int, ...] | None] = field(default_factory=dict, compare=False, repr=False)
    _record: list[dict[str, bytes]] = field(default_factory=list, compare=False, repr=False)
    _lists: dict[tuple[str, str], list[str]] = field(default_factory=dict, compare=False, repr=False)
    _searches: dict[tuple[str, ...], list[str]] = field(default_factory=dict, compare=False, repr=False)
    _definitions: list[dict[str, bytes] | None] = field(default_factory=list, compare=False, repr=False)

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, as every tree does."""
        if file not in self._texts:
            self._note(file)
            self._texts[file] = super().read(file)
        return self._texts[file]

    def _note(self, *files: str) -> None:
        for path in map(self._path, files):
            if path not in self._stamps:
                self._stamps[path] = _stamp(path)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files at any depth below ``folder`` that end in ``suffix``, sorted."""
        # Not of a folder that is a link.
        inside = [file for file in self._lists.get(("", suffix), ()) if file.startswith(f"{folder}/")]
        if not inside and (folder, suffix) not in self._lists:
            self._lists[folder, suffix] = super().files(folder, suffix)
        return inside or list(self._lists[folder, suffix])

    def containing(self, *texts: str) -> list[str]:
        """Return the Python files that contain one of the texts."""
        if texts not in self._searches:
            self._note(*self.files(""))
            self._searches[texts] = super().containing(*texts)
        return list(self._searches[texts])

    def definitions(self) -> dict[str, bytes] | None:
        """Return the lines that begin a top-level class or function, as every tree on disk does."""
        if not self._definitions:
            self._note(*self.files(SERVING))
            self._definitions.append(super().definitions())
        return self._definitions[0]

    def record(self) -> dict[str, bytes]:
        """Return the files of the record."""
        if not self._record:
            for folder in self.record_paths:
                self._stamps.update({str(path): _stamp(str(path)) for path in (folder, *folder.glob("*"))})
            self._record.append(super().record())
        return self._record[0]

    @property
    def is_unchanged(self) -> bool:
        """Whether every file and list that was read or searched is still the same."""
        return all(_stamp(path) == stamp for path, stamp in self._stamps.items()) and all(
            super(ReadTree, self).files(*given) == listing for given, listing in self._lists.items()
        )


@dataclass(frozen=True)
class MemoryTree:
    """A tree of a few files in memory."""

    contents: Mapping[str, bytes]
    package_label: str = "the example"
    version: str | None = None
    name: str = NAME
    line_length: int = 88

    def read(self, file: str) -> bytes | None:
        """Return the bytes of a file."""
        return self.contents.get(file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files below a folder, sorted."""
        inside = f"{folder}/" if folder else ""
        return sorted(file for file in self.contents if file.startswith(inside) and file.endswith(suffix))

    def unread(self, folder: str) -> list[str]:
        """Return an empty list: every file can be read."""
        del folder
        return []

    def record(self) -> dict[str, bytes]:
        """Return no file: nothing was applied."""
        return {}


@dataclass(frozen=True)
class TreeAbove:
    """A tree that shows the tree ``below`` it, as far as it has nothing of its own."""

    below: Tree

    @property
    def package_label(self) -> str:
        """The location of the tree below."""
        return self.below.package_label

    @property
    def version(self) -> str | None:
        """The version of the tree below."""
        return self.below.version

    @property
    def name(self) -> str:
        """The package's name in the tree below."""
        return self.below.name

    @property
    def line_length(self) -> int:
        """The line length of the tree below."""
        return self.below.line_length

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file`` in the tree below."""
        return self.below.read(file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files of the tree below."""
        return self.below.files(folder, suffix)

    def unread(self, folder: str) -> list[str]:
        """Return what the tree below cannot list."""
        return self.below.unread(folder)

    def record(self) -> dict[str, bytes]:
        """Return the record of the tree below."""
        return self.below.record()


@dataclass(frozen=True)
class OverlayTree(TreeAbove):
    """A tree in which ``contents`` replaces some files of the tree ``below``; None removes a file.

    ``modes`` are git's of those whose mode changes; the content of a link is its target.
    """

    contents: Contents
    modes: Mapping[str, str] = field(default_factory=dict)

    def read(self, file: str) -> bytes | None:
        """Return the replaced bytes of ``file``, or those of the tree below; None if there is no such file."""
        passed = set[str]()
        while self.modes.get(file) == LINK and (target := self.contents.get(file)) is not None:
            if file in passed:
                return None
            passed.add(file)
            file = posixpath.normpath(posixpath.join(posixpath.dirname(file), os.fsdecode(target)))
        return self.contents[file] if file in self.contents else super().read(file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files of the tree below with the replacements, sorted."""
        start = f"{folder}/" if folder else ""
        overlaid = {file for file in self.contents if file.startswith(start) and file.endswith(suffix)}
        deleted = {file for file in overlaid if self.contents[file] is None}
        return sorted(overlaid.union(super().files(folder, suffix)) - deleted)


def files_containing(tree: Tree, *texts: str, among: Sequence[str] | None = None) -> list[str]:
    """Return the Python files of any tree, or those of them that are ``among`` some, that contain one of the texts."""
    if isinstance(tree, CheckoutTree):
        names = {*tree.containing(*texts)}
    elif isinstance(tree, OverlayTree):
        names = {*files_containing(tree.below, *texts, among=among), *tree.contents}
    else:
        names = {*(tree.files("") if among is None else among)}
    return _containing(tree, sorted(names if among is None else names.intersection(among)), texts)


def _containing(tree: Tree, names: Iterable[str], texts: Iterable[str]) -> list[str]:
    wanted = [text.encode() for text in texts]
    return [name for name in names if any(map((tree.read(name) or b"").__contains__, wanted))]


def open_tree(path: Path) -> CheckoutTree:
    """Return the tree at ``path``. Raise TreeError if it is not an sglang tree, or not whole.

    ``path`` is a git checkout, its ``python`` folder, site-packages, an unpacked wheel, or the package folder. A tree
    is not whole if git refuses its repository, or does not check out all of its files.
    """
    with reading(path):
        if not os.path.isdir(path):
            raise TreeError(f"{path} is not a folder", advice="name an sglang checkout or package folder")
    top = path.resolve()
    package = _usual_package(top) or _renamed_package(top, str(path))
    if package is not None:
        return _whole(_checkout(package.resolve()))
    if is_bare(top):
        raise TreeError(
            f"{path} is a bare repository, which has no files",
            advice=f"run patchkit matrix {shlex.quote(str(path))} --refs HEAD to read its objects, or name a checkout "
            "or worktree of it",
        )
    _require_no_package_left_out(top)
    raise TreeError(
        f"{path} is not an sglang tree: it has neither python/sglang nor sglang",
        advice="name an sglang checkout or package folder",
    )


def folder_around(folder: Path) -> Path:
    """Return ``folder`` if it is a tree, otherwise the nearest folder above it whose tree contains ``folder``.

    A checkout contains its whole repository, any other tree only its package. Raise TreeError if there is none.
    """
    with reading(folder):
        start = folder.resolve(strict=True)
        for above in (start, *start.parents):
            is_top = (above / ".git").exists()
            package = _usual_package(above)
            if package is None and is_top:
                package = _renamed_package(above, str(above))
            if package is not None and (above == start or is_top or start.is_relative_to(package)):
                return folder if above == start else above
            if is_top or is_bare(above):
                break
    if is_bare(start):
        return folder
    if is_top:
        _require_no_package_left_out(above)
    raise TreeError(f"{start} is not in an sglang tree", advice="name a TREE, or change to a folder of one")


def installed_tree() -> CheckoutTree:
    """Return the sglang package of the running interpreter's environment, without importing it."""
    spec = importlib.util.find_spec(NAME)
    for place in (spec and spec.submodule_search_locations) or ():
        if _is_package(Path(place)):
            return _whole(_checkout(Path(place).resolve()))
    raise TreeError(
        f"sglang is not installed in {sys.prefix}", advice="pip install sglang there, or name a TREE"
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an OSError in reading ``path`` into a TreeError."""
    try:
        yield
    except OSError as error:
        raise _unreadable(error.filename or path, error) from error


def _unreadable(path: Path | str, error: OSError) -> TreeError:
    return TreeError(f"{path} cannot be read: {error.strerror}", advice="make it readable and try again")


def _stamp(path: str) -> tuple[int, ...] | None:
    """Return numbers that change when a file is saved or replaced, None if there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(path: Path | str) -> bytes | None:
    # Trees have thousands of files, so this enters no context.
    try:
        return read_whole(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except TooLongError:
        raise TreeError(
            f"{path} has more than {MAX_READ_BYTES // 2**20} MiB", advice="remove it and try again"
        ) from None
    except NoFileError:
        pass
    except OSError as error:
        if error.errno != errno.ENXIO:  # It is a socket.
            raise _unreadable(path, error) from error
    raise TreeError(f"{path} is a pipe, a socket or a device, not a file", advice="remove it and try again")


def _is_package(folder: Path) -> bool:
    with reading(folder):
        return (folder / "__init__.py").is_file() and (folder / SERVING).is_dir()


def _usual_package(folder: Path) -> Path | None:
    """Return the package at one of sglang's usual places in a folder, or the folder itself, or None."""
    return next(filter(_is_package, (*(folder / place for place in PLACES), folder)), None)


def _renamed_package(folder: Path, label: str) -> Path | None:
    """Return the package that a fork renamed, or None. Raise TreeError if there are several."""
    places = (sglang.only_package(_packages(folder / parent), label) for parent in sglang.PARENTS)
    return next((Path(place) for place in places if place is not None), None)


def _packages(folder: Path) -> list[str]:
    with reading(folder):
        below = list(folder.iterdir()) if folder.is_dir() else []
    return sorted({str(path.resolve()) for path in below if path.name[0] != "." and _is_package(path)})


def _whole(tree: CheckoutTree) -> CheckoutTree:
    """Return a tree. Raise TreeError if git refuses its repository, or leaves out files that patchkit reads."""
    named = map(tree.fork.path, places(tree.fork))
    _require_checked_out(tree.package, tree.package, *named, *tree.record_paths)
    return tree


def _require_no_package_left_out(folder: Path) -> None:
    """Raise TreeError if git leaves out a package below a folder, or has what is deleted of it."""
    missing: list[Path] = []
    deleted: dict[Path, Path] = {}
    with suppress(RefusedRepositoryError):  # No tree is known to be there.
        checkout = Checkout.around(folder)
        missing = checkout.not_checked_out([folder]) if checkout is not None else []
        deleted = checkout.deleted([folder]) if checkout is not None else {}
    package = next(
        (above for file in missing for above in file.parents if (above / SERVING) in file.parents), None
    )
    if package is not None:
        _require_checked_out(folder, package)
    needed = {
        gone
        for file, gone in deleted.items()
        for above in file.parents
        if ((above / SERVING).is_dir() and file == above / "__init__.py")
        or ((above / SERVING) in file.parents and not (above / SERVING).is_dir())
    }
    if needed:
        command = shlex.join(("git", "-C", str(folder), "restore", *sorted(map(str, needed))))
        raise TreeError(
            f"{len(deleted)} tracked files are deleted",
            where=min(needed),
            advice=f"run {command}, then try again",
        )


def _require_checked_out(folder: Path, *paths: Path) -> None:
    """Raise TreeError if git refuses a folder's repository, or leaves out sources or settings at or below ``paths``."""
    top = top_around(folder)
    checkout = Checkout.around(folder)
    missing = checkout.not_checked_out(paths) if checkout is not None else []
    files = [file for file in missing if file.suffix in (".py", ".toml")]
    if checkout is None or top is None or not files:
        return
    names = [path.relative_to(top) for path in paths if any(file.is_relative_to(path) for file in files)]
    command = shlex.join(("git", "-C", str(top), *checkout.checking_out(names)))
    raise TreeError(
        f"git does not check out {len(files)} of the tree's files",
        where=files[0],
        advice=f"run {command}, then try again",
    )


def _checkout(package: Path) -> CheckoutTree:
    above = package.parent
    if (package / ".git").exists():
        return CheckoutTree(root=package, package=package)
    in_checkout = above.name == "python" and (above.parent / ".git").exists()
    return CheckoutTree(root=above.parent if in_checkout else above, package=package)
