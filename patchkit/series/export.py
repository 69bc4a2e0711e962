"""Write a series for ``git am``, based on the current commit; the repository is only read."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit import __version__
from patchkit.errors import TreeError, UsageError
from patchkit.series.message import message
from patchkit.series.plumbing import git_output
from patchkit.tree.git import git
from patchkit.tree.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.plan.status import Stage
    from patchkit.tree.objects import GitTree

# Lines that git am takes for the end of a message, or for one of a mail's headers.
BREAK = re.compile(
    r"(?<=\n)(?:diff -|Index: |---(?: \S|[ \t]*$)|(?:From|Date|Subject):)", re.MULTILINE | re.IGNORECASE
)


def export(
    tree: GitTree,
    stages: Sequence[Stage],
    records: Sequence[Mapping[str, bytes]],
    folder: Path,
    prefix: str = "",
) -> tuple[Path, ...]:
    """Write one file per stage to ``folder``, or none, and return them; each subject starts with ``prefix``.

    ``records`` are the files of the tree's record after each stage. The commits are made in a temporary repository,
    where git's format does not depend on a user's settings. Raise UsageError if ``folder`` already contains a series,
    TreeError if it cannot be written or git has no author.
    """
    if folder.is_dir() and any(folder.glob("*.patch")):
        raise UsageError(
            f"{folder} already contains a series", advice="remove it or name another folder with -o"
        )
    if not stages:
        return ()
    try:
        with scratch() as place:
            return _copied(_written(tree, stages, records, place, prefix), folder)
    except OSError as error:
        raise TreeError(
            str(error.strerror),
            where=error.filename or folder,
            advice="nothing was written; fix the cause or name another folder with -o",
        ) from error


def _written(
    tree: GitTree, stages: Sequence[Stage], records: Sequence[Mapping[str, bytes]], place: Path, prefix: str
) -> list[Path]:
    repository = Scratch(place, tree)
    repository.run("read-tree", git_output(tree.repository.path, "rev-parse", f"{tree.ref}^{{tree}}"))
    base = parent = repository.run("commit-tree", repository.run("write-tree"), "-m", "The tree")
    for stage, old, new in zip(stages, (tree.record(), *records), records, strict=False):
        changes = {posixpath.join(tree.place, change.file): change.after for change in stage.changes}
        recorded = {
            posixpath.join(tree.record_place, file): new.get(file)
            for file in sorted({*old, *new})
            if old.get(file) != new.get(file)
        }
        for name, after in {**changes, **recorded}.items():
            if after is None:
                repository.run("update-index", "--force-remove", "--", name)
                continue
            content = place / "content"
            content.write_bytes(after)
            blob = repository.run("hash-object", "-w", "--no-filters", "--", str(content))
            mode = repository.run("ls-files", "--stage", "--", name)[:6] or "100644"
            repository.run("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}")
        written = repository.run("write-tree")
        text = BREAK.sub(r" \g<0>", message([stage.status], prefix))
        parent = repository.run("commit-tree", written, "-p", parent, "-F", "-", given=os.fsencode(text))
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/", "--full-index", "--binary", "--no-renames")
    signature = f"--signature=patchkit {__version__}"
    target = str(place / "series")
    listed = repository.run("format-patch", *prefixes, signature, "-o", target, f"{base}..{parent}")
    return [Path(line) for line in listed.split("\n")]


def _copied(files: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    """Copy the files to a folder under temporary names, then rename all of them."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    placed: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".patchkit-", dir=folder) as waiting:
            copies = [Path(shutil.copy(file, waiting)) for file in files]
            for copy in copies:
                placed.append(folder / copy.name)
                copy.rename(placed[-1])
    except BaseException:
        for file in placed:
            file.unlink(missing_ok=True)
        for place in missing:
            if place.is_dir():
                place.rmdir()
        raise
    return tuple(placed)


class Scratch:
    """A repository with the objects of a tree's one, if any, and, of its settings, only the author and committer."""

    def __init__(self, place: Path, tree: GitTree | None = None) -> None:
        self._path = place / "git"
        self._settings = {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "0",
            "GIT_CONFIG_PARAMETERS": "",
        }
        source = tree.repository.path if tree is not None else None
        kind = "sha1" if source is None else git_output(source, "rev-parse", "--show-object-format")
        for who in ("AUTHOR", "COMMITTER"):
            self._settings |= (
                {f"GIT_{who}_NAME": "patchkit", f"GIT_{who}_EMAIL": "patchkit"}
                if source is None
                else _identity(source, who)
            )
        options = ("--quiet", "--bare", "--template=", f"--object-format={kind}", str(self._path))
        _git(place, "init", *options, settings=self._settings)
        if source is None:
            return
        objects = git_output(source, "rev-parse", "--path-format=absolute", "--git-path", "objects")
        alternates = self._path / "objects" / "info" / "alternates"
        alternates.parent.mkdir(exist_ok=True)
        alternates.write_bytes(os.fsencode(f"{_quoted(objects)}\n"))

    def run(self, *arguments: str, given: bytes = b"", settings: Mapping[str, str] | None = None) -> str:
        """Return git's output without the last line feed. Raise TreeError if it fails."""
        output = self.output(*arguments, given=given, settings=settings)
        return os.fsdecode(output).removesuffix("\n")

    def output(self, *arguments: str, given: bytes = b"", settings: Mapping[str, str] | None = None) -> bytes:
        """Return git's output. Raise TreeError if it fails."""
        return _git(self._path, *arguments, settings={**self._settings, **(settings or {})}, given=given)


def _quoted(path: str) -> str:
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        path = path.replace(plain, written)
    return f'"{path}"'


def _identity(repository: Path, who: str) -> dict[str, str]:
    """Return git's variables for the author or committer of a repository."""
    name, _, rest = git_output(repository, "var", f"GIT_{who}_IDENT").rpartition(" <")
    address, _, date = rest.partition("> ")
    return {f"GIT_{who}_NAME": name, f"GIT_{who}_EMAIL": address, f"GIT_{who}_DATE": date}


def _git(folder: Path, *arguments: str, settings: Mapping[str, str], given: bytes = b"") -> bytes:
    done = git(folder, *arguments, settings=settings, named=True, given=given)
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise TreeError(
            f"git {arguments[0]} failed in {folder} ({lines[0] if lines else 'without a message'})",
            advice="nothing was written; fix the cause and try again",
        )
    return done.stdout
