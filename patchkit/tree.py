"""Every byte that patchkit knows of an sglang tree is read here, as it is: nothing is imported or run.

A *file* is a posix path relative to the package folder (``srt/server_args.py``), so that the same patch names
the same file in a checkout, in site-packages and in a ref of a git object store.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import posixpath
import re
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from patchkit.errors import TreeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME = "sglang"
_PLACES = (f"python/{NAME}", NAME)
_VERSION = re.compile(rb"""^__version__\s*=\s*(?:\w+\s*=\s*)*["']([^"']+)["']""", re.MULTILINE)
# A hook runs with these set, and they would point git at another repository than the folder's own.
_GIT_OVERRIDES = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})


class Tree(Protocol):
    """An sglang source tree, read-only."""

    @property
    def package_label(self) -> str:
        """Where the package folder is, for messages."""

    @property
    def version(self) -> str | None:
        """The tree's release, such as ``0.5.12.post1``; None where the tree does not say."""

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, or None where there is no such file."""

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files at any depth below ``folder`` that end in ``suffix``, sorted.

        ``""`` is the package folder itself. Folders whose name starts with a dot are left out.
        """


@dataclass(frozen=True)
class CheckoutTree:
    """A tree on disk: a git checkout, an unpacked wheel or an installed package."""

    root: Path
    package: Path

    @property
    def package_label(self) -> str:
        """The package folder's path."""
        return str(self.package)

    @cached_property
    def version(self) -> str | None:
        """The release that the package, its project file, its metadata or the tag at HEAD names."""
        stated = _stated_version(self.read, self._project_file())
        if stated is not None:
            return stated
        for installed in importlib.metadata.distributions(name=NAME, path=[str(self.package.parent)]):
            return installed.version
        return _tag_version(self.root, "HEAD") if (self.root / ".git").exists() else None

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, None where there is no such file; TreeError if it is unreadable."""
        return _read(self.package / file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files at any depth below ``folder`` that end in ``suffix``, sorted."""
        found = []
        for where, folders, names in os.walk(self.package / folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            below = Path(where).relative_to(self.package)
            found += [(below / name).as_posix() for name in names if name.endswith(suffix)]
        return sorted(found)

    def _project_file(self) -> bytes | None:
        return _read(self.package.parent / "pyproject.toml")


class GitRepository:
    """The object store of a git repository, bare or not, read through one long-lived process."""

    def __init__(self, path: Path) -> None:
        """Start reading; TreeError if ``path`` is no git repository. Close it, or use it in ``with``."""
        self.path = path
        if git(path, "rev-parse", "--git-dir").returncode != 0:
            raise TreeError(f"{path} is not a git repository: name a clone or a bare repository.")
        self._process = subprocess.Popen(
            ["git", "-C", str(path), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
        )

    def __enter__(self) -> GitRepository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reading process."""
        self._process.communicate()

    def object(self, name: str) -> tuple[str, bytes] | None:
        """Return the object that ``name`` (an id or a revision) stands for as (id, content), or None."""
        if "\n" in name:
            return None
        requests, replies = self._process.stdin, self._process.stdout
        if requests is None or replies is None or requests.closed:
            raise TreeError(f"{self.path} was closed: open it again.")
        try:
            requests.write(name.encode() + b"\n")
            requests.flush()
        except BrokenPipeError:
            raise TreeError(f"git stopped reading {self.path}: run git fsck there.") from None
        header = replies.readline().rsplit(b" ", 2)
        if len(header) != 3 or not header[2].strip().isdigit():
            return None
        content = replies.read(int(header[2]))
        replies.read(1)
        return header[0].decode(), content


class GitTree:
    """The tree at one ref of a git object store, without a checkout."""

    def __init__(self, repository: GitRepository, ref: str) -> None:
        """List the tree at ``ref`` (commit, tag or branch); TreeError if it is none or holds no sglang."""
        self.repository = repository
        self.ref = ref
        top = repository.object(f"{ref}^{{tree}}")
        if top is None:
            raise TreeError(f"{repository.path} has no ref {ref}: git fetch it there, or name another.")
        listing = git(repository.path, "ls-tree", "-r", "-z", "--full-tree", top[0], *_PLACES)
        # Each entry reads "<mode> <type> <id>\t<path>".
        entries = [entry.split(b"\t", 1) for entry in listing.stdout.split(b"\0") if entry]
        blobs = {os.fsdecode(path): meta.decode().split() for meta, path in entries}
        for place in _PLACES:
            if f"{place}/__init__.py" in blobs and any(path.startswith(f"{place}/srt/") for path in blobs):
                break
        else:
            raise TreeError(f"{ref} of {repository.path} is not an sglang tree: it has no python/sglang.")
        self._place = place
        inside = {
            path[len(place) + 1 :]: meta for path, meta in blobs.items() if path.startswith(f"{place}/")
        }
        self._blobs = {path: name for path, (_, kind, name) in inside.items() if kind == "blob"}
        self._links = {path for path, (mode, _, _) in inside.items() if mode == "120000"}

    @property
    def package_label(self) -> str:
        """The repository, the ref and the package folder, as ``git show`` spells them."""
        return f"{self.repository.path} {self.ref}:{self._place}"

    @cached_property
    def version(self) -> str | None:
        """The release that the package, its project file or a tag at the ref names."""
        beside = posixpath.join(posixpath.dirname(self._place), "pyproject.toml")
        project = self.repository.object(f"{self.ref}:{beside}")
        stated = _stated_version(self.read, project[1] if project else None)
        return stated if stated is not None else _tag_version(self.repository.path, self.ref)

    def read(self, file: str) -> bytes | None:
        """Return the bytes of ``file``, following a link inside the package, or None where there is none."""
        seen = set()
        while file in self._links and file not in seen:
            seen.add(file)
            link = self._content(file)
            file = posixpath.normpath(posixpath.join(posixpath.dirname(file), os.fsdecode(link)))
        return self._content(file) if file in self._blobs and file not in seen else None

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files at any depth below ``folder`` that end in ``suffix``, sorted."""
        start = f"{folder}/" if folder else ""
        return sorted(
            file
            for file in self._blobs
            if file.startswith(start) and file.endswith(suffix) and not _hidden(file[len(start) :])
        )

    def _content(self, file: str) -> bytes:
        blob = self.repository.object(self._blobs[file])
        if blob is None:
            raise TreeError(
                f"{self.package_label}/{file} is missing from the object store: run git fsck there."
            )
        return blob[1]


@dataclass(frozen=True)
class OverlayTree:
    """A tree in which some files have other bytes than they have below it."""

    below: Tree
    contents: Mapping[str, bytes]

    @property
    def package_label(self) -> str:
        """Where the tree below is."""
        return self.below.package_label

    @property
    def version(self) -> str | None:
        """The version of the tree below."""
        return self.below.version

    def read(self, file: str) -> bytes | None:
        """Return the laid-over bytes of ``file``, or those of the tree below."""
        return self.contents[file] if file in self.contents else self.below.read(file)

    def files(self, folder: str, suffix: str = ".py") -> list[str]:
        """Return the files of the tree below and the laid-over ones, sorted."""
        start = f"{folder}/" if folder else ""
        added = {file for file in self.contents if file.startswith(start) and file.endswith(suffix)}
        return sorted(added.union(self.below.files(folder, suffix)))


def open_tree(path: Path) -> CheckoutTree:
    """Return the tree at ``path``, or raise TreeError if it is not sglang.

    ``path`` is a git checkout, its ``python`` folder, site-packages, an unpacked wheel, or the package.
    """
    with reading(path):
        if not path.is_dir():
            raise TreeError(f"{path} is not a folder: name an sglang checkout or package folder.")
    top = path.resolve()
    for package in (*(top / place for place in _PLACES), top):
        if _is_package(package):
            return _checkout(package.resolve())
    raise TreeError(
        f"{path} is not an sglang tree: it holds neither python/sglang nor sglang; name the folder that does."
    )


def installed_tree() -> CheckoutTree:
    """Return the sglang package of the running interpreter's environment, without importing it."""
    spec = importlib.util.find_spec(NAME)
    for place in (spec and spec.submodule_search_locations) or ():
        if _is_package(Path(place)):
            return _checkout(Path(place).resolve())
    raise TreeError(f"sglang is not installed in {sys.prefix}: pip install sglang there, or name a TREE.")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what keeps ``path`` from being read into a TreeError."""
    try:
        yield
    except OSError as error:
        raise TreeError(
            f"{path} cannot be read: {error.strerror}: make it readable and try again."
        ) from error


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run git in ``folder`` on the repository that the folder is in, taking no lock and writing no index."""
    try:
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            check=False,
            env=_environment(),
        )
    except OSError:
        raise TreeError(f"git is needed to read {folder} and is not on PATH: install git.") from None


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in _GIT_OVERRIDES} | {"LC_ALL": "C"}


def _read(path: Path) -> bytes | None:
    with reading(path), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return path.read_bytes()
    return None


def _is_package(folder: Path) -> bool:
    with reading(folder):
        return (folder / "__init__.py").is_file() and (folder / "srt").is_dir()


def _checkout(package: Path) -> CheckoutTree:
    above = package.parent
    in_checkout = above.name == "python" and (above.parent / ".git").exists()
    return CheckoutTree(root=above.parent if in_checkout else above, package=package)


def _hidden(path: str) -> bool:
    return any(folder.startswith(".") for folder in path.split("/")[:-1])


def _stated_version(read: Callable[[str], bytes | None], project: bytes | None) -> str | None:
    for file in ("_version.py", "version.py"):
        stated = _VERSION.search(read(file) or b"")
        if stated:
            return stated[1].decode()
    try:
        version = tomllib.loads((project or b"").decode()).get("project", {}).get("version")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError):
        return None
    return version if isinstance(version, str) else None


def _tag_version(folder: Path, ref: str) -> str | None:
    described = git(folder, "describe", "--tags", "--exact-match", "--match", "v[0-9]*", ref)
    return described.stdout.decode().strip().removeprefix("v") or None
