"""Read what HEAD and the index record of a checkout's files, byte for byte.

Only object ids and objects are read, so no filter runs and no setting changes the result. If git fails, TreeError is
raised.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree.git import git, top_around

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from subprocess import CompletedProcess


_MIN_SIMILARITY = 30
"""Similarity in per cent from which git's own rename detection is accepted."""


class Checkout:
    """The git checkout that contains a folder; reads its files' object ids in HEAD and the index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def around(cls, folder: Path) -> Checkout | None:
        """Return the checkout that contains ``folder``, or None.

        Raise TreeError if git reports another checkout than the nearest ``.git`` folder.
        """
        nearest = top_around(folder)
        if nearest is None:
            return None
        checkout = cls(folder)
        top = os.fsdecode(checkout._ask("rev-parse", "--show-toplevel").rstrip(b"\n"))
        if os.path.realpath(top) != os.path.realpath(nearest):
            raise checkout._failed(f"git uses the checkout {top}, not {nearest}")
        return checkout

    def has(self, name: str) -> bool:
        """Return whether HEAD or the index has a file."""
        return bool(self.committed([name]) or self.staged([name]))

    def committed(self, names: Iterable[str]) -> dict[str, str]:
        """Return the object ids of the files in HEAD, empty before the first commit."""
        listing = git(self._folder, "ls-tree", "-r", "-z", "HEAD^{commit}", "--", *names)
        if listing.returncode:
            if git(self._folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
                self._require_unborn()
                return {}
            raise self._failed_as(listing)
        entries = (entry.split(b"\t", 1) for entry in listing.stdout.split(b"\0") if entry)
        return {os.fsdecode(name): meta.decode().split()[2] for meta, name in entries}

    def staged(self, names: Iterable[str]) -> dict[str, str]:
        """Return the object ids of the files in the index, ``unmerged`` for a file with unmerged entries."""
        listing = self._ask("ls-files", "--stage", "-z", "--", *names)
        found: dict[str, str] = {}
        for meta, name in (entry.split(b"\t", 1) for entry in listing.split(b"\0") if entry):
            _, identifier, stage = meta.decode().split()
            found[os.fsdecode(name)] = identifier if stage == "0" else "unmerged"
        return found

    def unchanged(self, folder: str) -> frozenset[str]:
        """Return the files of a folder in HEAD that no commit changed after the one that added them.

        Return none in a shallow clone.
        """
        if self.is_shallow:
            return frozenset()
        arguments = (
            "-c",
            "--format=",
            "--name-only",
            "--no-renames",
            "--relative",
            "-z",
            "HEAD",
            "--",
            folder,
        )
        listing = os.fsdecode(self._ask("log", *arguments)).split("\0")
        changes = Counter(name.strip("\n") for name in listing)
        return frozenset(name for name in self.committed([f"{folder}/"]) if changes[name] == 1)

    def is_content(self, identifier: str, content: bytes) -> bool:
        """Return whether an object has this content, ignoring line endings."""
        algorithm = hashlib.sha1 if len(identifier) == 40 else hashlib.sha256
        if algorithm(b"blob %d\0" % len(content) + content).hexdigest() == identifier:
            return True
        known = self._ask("cat-file", "blob", identifier)
        return known.replace(b"\r\n", b"\n") == content.replace(b"\r\n", b"\n")

    def having(self, pattern: str, names: Iterable[str]) -> frozenset[str]:
        """Return the files that an extended regular expression matches in HEAD."""
        arguments = ("grep", "-l", "-z", "--no-textconv", "-E", "-e", pattern, "HEAD", "--", *names)
        answer = git(self._folder, *arguments)
        if answer.returncode > 1:
            raise self._failed_as(answer)
        found = os.fsdecode(answer.stdout).split("\0")
        return frozenset(name.removeprefix("HEAD:") for name in found if name)

    def touching(
        self, pattern: str, names: Iterable[str], since: str = "HEAD"
    ) -> dict[str, list[tuple[str, str]]]:
        """Return, for each file, the commits that added or removed a match of an extended regular expression.

        The newest is first, and each has a parent.

        A merge is listed once for each parent; a commit without a known parent is left out.
        """
        arguments = (
            "-m",
            "--format=%x00%H %P",
            "--name-only",
            "--no-renames",
            "--relative",
            "-z",
            "--pickaxe-regex",
            f"-S{pattern}",
            since,
        )
        # If the index has the same blob as a commit, git reads the file from disk, through its filters. A missing index
        # prevents that.
        settings = {"GIT_INDEX_FILE": str(self._folder.resolve() / f".{secrets.token_hex(16)}")}
        listing = self._ask("log", *arguments, "--", *names, settings=settings)
        found: dict[str, list[tuple[str, str]]] = {}
        commit, parents = "", list[str]()
        words = os.fsdecode(listing).split("\0")
        for before, word in pairwise(words):
            if word and not before:
                commit, *parents = word.split()
            elif word:
                # The first file is on a line of its own.
                pairs = found.setdefault(word.removeprefix("\n"), [])
                pairs += [(commit, parent) for parent in parents if (commit, parent) not in pairs]
        return found

    def renamed(self, parent: str, commit: str, name: str) -> str | None:
        """Return the name in ``parent`` of the file that ``commit`` renamed to ``name``, or None.

        A file that was renamed, patched and extended in one commit may be new for the most part; it then has most of
        the old file's lines.
        """
        arguments = ("-r", "-z", "-M1%", "--diff-filter=R", "--name-status", "--relative", parent, commit)
        words = os.fsdecode(self._ask("diff-tree", *arguments)).split("\0")
        moved = {
            to: (score, old) for score, old, to in zip(words[::3], words[1::3], words[2::3], strict=False)
        }
        score, old = moved.get(name, ("", ""))
        alike = old and int(score.removeprefix("R")) >= _MIN_SIMILARITY
        return old if alike or (old and self._has_most(commit, name, parent, old)) else None

    def moved_from(self, name: str, since: str = "HEAD") -> tuple[str, str] | None:
        """Return the name that a file had before the last commit that renamed it, and that commit's parent, or None."""
        arguments = ("-m", "-1", "--diff-filter=A", "--no-renames", "--format=%H %P", "--no-patch", since)
        words = os.fsdecode(self._ask("log", *arguments, "--", name)).split()
        commit, parents = (words[0], words[1:]) if words else ("", [])
        moves = ((self.renamed(parent, commit, name), parent) for parent in parents)
        return next(((old, parent) for old, parent in moves if old is not None), None)

    def _has_most(self, commit: str, name: str, parent: str, old: str) -> bool:
        """Return whether a file has more than half of the lines of another."""
        texts = ((self.at(*place) or b"").splitlines() for place in ((commit, name), (parent, old)))
        now, before = (Counter(filter(None, map(bytes.strip, lines))) for lines in texts)
        return 2 * (now & before).total() > before.total()

    def at(self, commit: str, name: str) -> bytes | None:
        """Return a file's content in a commit, or None if it has no such file. Raise TreeError for no commit."""
        found = git(self._folder, "cat-file", "blob", f"{commit}:./{name}")
        if found.returncode == 0:
            return found.stdout
        self._ask("cat-file", "-e", f"{commit}^{{commit}}")
        listing = self._ask("ls-tree", "-z", commit, "--", name).split(b"\0")[0]
        return self._ask("cat-file", "blob", listing.split()[2].decode()) if listing else None

    def reader(self, places: Iterable[tuple[str, str]]) -> Callable[[str, str], bytes | None]:
        """Return ``at``, with the contents of files, each given by a commit and a name, read by one process."""
        known = self._blobs(places)

        def read(commit: str, name: str) -> bytes | None:
            return known[commit, name] if (commit, name) in known else self.at(commit, name)

        return read

    def _blobs(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the contents of the files that are there and that git can read."""
        queried = [place for place in places if "\n" not in place[1]]
        lines = os.fsencode("".join(f"{commit}:./{name}\n" for commit, name in queried))
        answer = git(self._folder, "cat-file", "--batch", given=lines)
        replies = io.BytesIO(b"" if answer.returncode else answer.stdout)
        found: dict[tuple[str, str], bytes] = {}
        for place in queried:
            # An object's id, kind and size; a missing one's name and a word.
            *_, kind, size = [b"", *replies.readline().rsplit(b" ", 2)]
            if size.strip().isdigit():
                content = replies.read(int(size) + 1)[:-1]
                found |= {place: content} if kind == b"blob" else {}
        return found

    @property
    def is_shallow(self) -> bool:
        """Whether the history ends before its first commit."""
        return self._ask("rev-parse", "--is-shallow-repository").strip() == b"true"

    def _require_unborn(self) -> None:
        branch = os.fsdecode(self._ask("symbolic-ref", "HEAD").strip())
        if git(self._folder, "show-ref", "--verify", "--quiet", branch).returncode == 0:
            raise self._failed("the commit of HEAD cannot be read")
        path = os.fsdecode(self._ask("rev-parse", "--git-path", branch).rstrip(b"\n"))
        if os.path.lexists(self._folder / path):
            raise self._failed(f"{branch} is broken")

    def _ask(self, *arguments: str, settings: Mapping[str, str] | None = None) -> bytes:
        answer = git(self._folder, *arguments, settings=settings)
        if answer.returncode:
            raise self._failed_as(answer)
        return answer.stdout

    def _failed_as(self, answer: CompletedProcess[bytes]) -> TreeError:
        return self._failed(answer.stderr.decode(errors="replace").partition("\n")[0])

    def _failed(self, reason: str) -> TreeError:
        return TreeError(
            f"git cannot read what {self._folder} has committed and staged ({reason})",
            advice="run git fsck there; in a partial clone, run git fetch --refetch",
        )
