"""Read what HEAD and the index record of a checkout's files, byte for byte.

Only object ids and objects are read, so no filter runs and no setting changes the result. If git fails, TreeError is
raised.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree.git import git, is_set, object_id, refused, top_around, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import PurePath


_SKIPPED = ("S", "s")
"""How ``git ls-files -v`` marks ``skip-worktree``, without and with ``assume-unchanged``."""
_PACKAGE_FILE = "__init__.py"
"""A file that git tracks if it tracks the package."""
_MIN_SIMILARITY = 30
"""Similarity in per cent from which git's own rename detection is accepted."""


def searched(folder: Path, texts: Iterable[str]) -> list[str] | None:
    """Return the Python files below a folder that contain one of the texts, None if git cannot tell.

    It reads what is on disk, whether git tracks it or not.
    """
    expressions = (word for text in texts for word in ("-e", text))
    output = _grep(folder, "-l", "-F", *expressions)
    return None if output is None else [name for name in os.fsdecode(output).split("\0") if name]


def lines_matching(folder: Path, pattern: str) -> dict[str, list[bytes]] | None:
    """Return the lines that match an extended regular expression in each Python file, as ``searched`` does."""
    output = _grep(folder, "--text", "-E", "-e", pattern)
    if output is None:
        return None
    lines: dict[str, list[bytes]] = {}
    for match_line in output.split(b"\n"):
        name, separator, line = match_line.partition(b"\0")
        if separator:
            lines.setdefault(os.fsdecode(name), []).append(line)
    return lines


def _grep(folder: Path, *options: str) -> bytes | None:
    with suppress(TreeError):
        words = ("grep", "--threads=1", "--no-index", "-z", "--no-textconv", *options, "--", "*.py")
        answer = git(folder, *words, settings={"GIT_LITERAL_PATHSPECS": "0"})
        if answer.returncode in (0, 1) and not answer.stderr:
            return answer.stdout
    return None


def is_object(identifier: str, content: bytes) -> bool:
    """Return whether a blob has this content."""
    return object_id(content, algorithm="sha1" if len(identifier) == 40 else "sha256") == identifier


class Checkout:
    """The git checkout that contains a folder; reads its files' object ids in HEAD and the index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def around(cls, folder: Path) -> Checkout | None:
        """Return the checkout that contains ``folder``, or None.

        Raise TreeError if git refuses its repository, cannot read the commit of HEAD, or uses another repository than
        that of the nearest ``.git`` folder.
        """
        nearest = top_around(folder)
        if nearest is None:
            return None
        answer = git(folder, "rev-parse", "--show-toplevel", "HEAD^{commit}")
        # The last line is the commit, and a folder's name may have line feeds.
        top = os.fsdecode(answer.stdout.rstrip(b"\n").rpartition(b"\n")[0])
        if answer.returncode and not top:
            raise refused(nearest, answer)
        checkout = cls(folder)
        if os.path.realpath(top) != os.path.realpath(nearest):
            raise unreadable(nearest, f"git uses the checkout {top}")
        if answer.returncode:
            checkout._require_unborn()
        return checkout

    @classmethod
    def tracking(cls, package: Path) -> Checkout | None:
        """Return the checkout that contains a package if HEAD or the index has it, otherwise None.

        Raise what ``around`` raises.
        """
        nearest = top_around(package)
        if nearest is None:
            return None
        # Of a file that HEAD has one process tells all.
        answer = git(package, "rev-parse", "--show-toplevel", "HEAD^{commit}", f"HEAD:./{_PACKAGE_FILE}")
        top = os.fsdecode(answer.stdout.rstrip(b"\n").rsplit(b"\n", 2)[0])
        if answer.returncode == 0 and os.path.realpath(top) == os.path.realpath(nearest):
            return cls(package)
        checkout = cls.around(package)
        names = [_PACKAGE_FILE]
        is_tracked = checkout is not None and (checkout.committed(names) or checkout.staged(names))
        return checkout if is_tracked else None

    def not_checked_out(self, paths: Iterable[Path]) -> list[Path]:
        """Return the tracked files at or below ``paths`` that git leaves out of the working tree (``skip-worktree``).

        Those that are there nevertheless, and those that git only takes for unchanged, are not among them.
        """
        skipped = (name for name, mark in self._marks(map(str, paths)) if mark in _SKIPPED)
        places = (Path(os.path.normpath(self._folder / name)) for name in skipped)
        return [path for path in places if not os.path.lexists(path)]

    def deleted(self, paths: Iterable[Path]) -> dict[Path, Path]:
        """Return the tracked files at or below ``paths`` that are gone, each with the topmost folder gone with it.

        That is the file itself if its folder is there. Those that git leaves out of the working tree are not among
        them.
        """
        listing = os.fsdecode(self._ask("ls-files", "--deleted", "-z", "--", *map(str, paths)))
        places = [Path(os.path.normpath(self._folder / name)) for name in listing.split("\0") if name]
        return {
            place: [above for above in (place, *place.parents) if not os.path.lexists(above)][-1]
            for place in places
        }

    def hidden(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the files whose changes git does not show, by the option of ``git update-index`` that ends that."""
        marks = list(self._marks(names))
        hidden_names = {
            "--no-skip-worktree": [name for name, mark in marks if mark in _SKIPPED],
            "--no-assume-unchanged": [name for name, mark in marks if mark.islower()],
        }
        return {option: files for option, files in hidden_names.items() if files}

    def _marks(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the tracked files at or below ``names`` that ``git ls-files -v`` marks, each with its mark."""
        listing = os.fsdecode(self._ask("ls-files", "-v", "-z", "--", *names))
        for line in listing.split("\0"):
            if line and not line.startswith("H "):
                mark, _, name = line.partition(" ")
                yield name, mark

    def checking_out(self, names: Sequence[PurePath]) -> tuple[str, ...]:
        """Return git's arguments for checking out folders and files that are left out, named from the top."""
        is_sparse, is_cone = (
            is_set(self._folder, key) for key in ("core.sparseCheckout", "core.sparseCheckoutCone")
        )
        if not is_sparse or any(not name.parts for name in names):
            return ("sparse-checkout", "disable")
        # A pattern that leaves out a file is stronger than one that adds its folder.
        added = (
            str(name) if is_cone else f"/{name}" if name.suffix == ".toml" else f"/{name}/**"
            for name in names
        )
        return ("sparse-checkout", "add", *added)

    def committed(self, names: Iterable[str]) -> dict[str, str]:
        """Return the object ids of the files in HEAD, empty before the first commit."""
        listing = git(self._folder, "ls-tree", "-r", "-z", "HEAD^{commit}", "--", *names)
        if listing.returncode:
            if git(self._folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
                self._require_unborn()
                return {}
            raise refused(self._folder, listing)
        entries = (entry.split(b"\t", 1) for entry in listing.stdout.split(b"\0") if entry)
        return {os.fsdecode(name): meta.decode().split()[2] for meta, name in entries}

    def staged(self, names: Iterable[str]) -> dict[str, str]:
        """Return the object ids of the files in the index, ``unmerged`` for a file with unmerged entries."""
        listing = self._ask("ls-files", "--stage", "-z", "--", *names)
        entries: dict[str, str] = {}
        for meta, name in (entry.split(b"\t", 1) for entry in listing.split(b"\0") if entry):
            _, identifier, stage = meta.decode().split()
            entries[os.fsdecode(name)] = identifier if stage == "0" else "unmerged"
        return entries

    def untracked(self, names: Iterable[str]) -> list[str]:
        """Return the files at or below ``names`` that git neither tracks nor ignores, sorted."""
        listing = self._ask("ls-files", "--others", "--exclude-standard", "-z", "--", *names)
        return sorted(filter(None, os.fsdecode(listing).split("\0")))

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
        if is_object(identifier, content):
            return True
        blob = self._ask("cat-file", "blob", identifier)
        return blob.replace(b"\r\n", b"\n") == content.replace(b"\r\n", b"\n")

    def lacking(self, identifiers: Iterable[str]) -> frozenset[str]:
        """Return those of the object ids that the repository does not have."""
        asked = "".join(f"{identifier}\n" for identifier in identifiers).encode()
        answer = git(self._folder, "cat-file", "--batch-check", given=asked) if asked else None
        lines = () if answer is None else answer.stdout.decode().splitlines()
        return frozenset(line.split()[0] for line in lines if line.endswith(" missing"))

    def having(self, pattern: str, names: Iterable[str]) -> frozenset[str]:
        """Return the files that an extended regular expression matches in HEAD."""
        arguments = ("grep", "-l", "-z", "--no-textconv", "-E", "-e", pattern, "HEAD", "--", *names)
        answer = git(self._folder, *arguments)
        if answer.returncode > 1:
            raise refused(self._folder, answer)
        holding = os.fsdecode(answer.stdout).split("\0")
        return frozenset(name.removeprefix("HEAD:") for name in holding if name)

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
        settings = {"GIT_INDEX_FILE": str(self._folder.resolve() / f".{os.urandom(16).hex()}")}
        listing = self._ask("log", *arguments, "--", *names, settings=settings)
        paths: dict[str, list[tuple[str, str]]] = {}
        commit, parents = "", list[str]()
        words = os.fsdecode(listing).split("\0")
        for before, word in pairwise(words):
            if word and not before:
                commit, *parents = word.split()
            elif word:
                # The first file is on a line of its own.
                pairs = paths.setdefault(word.removeprefix("\n"), [])
                pairs += [(commit, parent) for parent in parents if (commit, parent) not in pairs]
        return paths

    def trailers(self, key: str, commits: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the values of a trailer of those of the commits that have it."""
        given = "\n".join(sorted(commits)).encode()
        if not given:
            return {}
        form = f"--format=%H %(trailers:key={key},valueonly,separator=%x20)"
        answer = git(self._folder, "log", "--no-walk", "--stdin", form, given=given)
        if answer.returncode:
            raise refused(self._folder, answer)
        lines = (line.split() for line in answer.stdout.decode(errors="replace").splitlines())
        return {commit: frozenset(values) for commit, *values in lines if values}

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
        answer = git(self._folder, "cat-file", "blob", f"{commit}:./{name}")
        if answer.returncode == 0:
            return answer.stdout
        self._ask("cat-file", "-e", f"{commit}^{{commit}}")
        listing = self._ask("ls-tree", "-z", commit, "--", name).split(b"\0")[0]
        return self._ask("cat-file", "blob", listing.split()[2].decode()) if listing else None

    def reader(self, places: Iterable[tuple[str, str]]) -> Callable[[str, str], bytes | None]:
        """Return a reader of contents by a commit and a name, as ``at`` is, with these read by one process."""
        blobs = self._blobs(places)

        def read(commit: str, name: str) -> bytes | None:
            return blobs[commit, name] if (commit, name) in blobs else self.at(commit, name)

        return read

    def _blobs(self, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """Return the contents of the files that are there and that git can read."""
        queried = [place for place in places if "\n" not in place[1]]
        lines = os.fsencode("".join(f"{commit}:./{name}\n" for commit, name in queried))
        answer = git(self._folder, "cat-file", "--batch", given=lines)
        replies = io.BytesIO(b"" if answer.returncode else answer.stdout)
        contents: dict[tuple[str, str], bytes] = {}
        for place in queried:
            # An object's id, kind and size; a missing one's name and a word.
            *_, kind, size = [b"", *replies.readline().rsplit(b" ", 2)]
            if size.strip().isdigit():
                content = replies.read(int(size) + 1)[:-1]
                contents |= {place: content} if kind == b"blob" else {}
        return contents

    @property
    def is_shallow(self) -> bool:
        """Whether the history ends before its first commit."""
        return self._ask("rev-parse", "--is-shallow-repository").strip() == b"true"

    def _require_unborn(self) -> None:
        named = git(self._folder, "symbolic-ref", "--quiet", "HEAD")
        if named.returncode == 1:  # HEAD is detached.
            raise unreadable(self._folder, "the commit of HEAD cannot be read")
        if named.returncode:
            raise refused(self._folder, named)
        branch = os.fsdecode(named.stdout.strip())
        if git(self._folder, "show-ref", "--verify", "--quiet", branch).returncode == 0:
            raise unreadable(self._folder, "the commit of HEAD cannot be read")
        path = os.fsdecode(self._ask("rev-parse", "--git-path", branch).rstrip(b"\n"))
        if os.path.lexists(self._folder / path):
            raise unreadable(self._folder, f"{branch} is broken")

    def _ask(self, *arguments: str, settings: Mapping[str, str] | None = None) -> bytes:
        answer = git(self._folder, *arguments, settings=settings)
        if answer.returncode:
            raise refused(self._folder, answer)
        return answer.stdout
