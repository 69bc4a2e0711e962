"""Git is asked here: about a checkout, and for the trees in an object store, without a checkout."""

from __future__ import annotations

import os
import posixpath
import subprocess
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree.sglang import PLACES, stated_version

if TYPE_CHECKING:
    from pathlib import Path

# A hook runs with these set, and they would point git at another repository than the folder's own.
_GIT_OVERRIDES = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"})


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
        listing = git(repository.path, "ls-tree", "-r", "-z", "--full-tree", top[0], *PLACES)
        # Each entry reads "<mode> <type> <id>\t<path>".
        entries = [entry.split(b"\t", 1) for entry in listing.stdout.split(b"\0") if entry]
        blobs = {os.fsdecode(path): meta.decode().split() for meta, path in entries}
        for place in PLACES:
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
        stated = stated_version(self.read, project[1] if project else None)
        return stated if stated is not None else tag_version(self.repository.path, self.ref)

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


def _hidden(path: str) -> bool:
    return any(folder.startswith(".") for folder in path.split("/")[:-1])


def tag_version(folder: Path, ref: str) -> str | None:
    """Return the release that a tag exactly at ``ref`` names, None where there is none."""
    described = git(folder, "describe", "--tags", "--exact-match", "--match", "v[0-9]*", ref)
    return described.stdout.decode().strip().removeprefix("v") or None
