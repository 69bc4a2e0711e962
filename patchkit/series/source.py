"""The changes that a port makes: commits, ranges, diffs, mailboxes and folders of patches, in order."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from patchkit.drafting import difference
from patchkit.errors import UsageError
from patchkit.patchset.unified import DiffOptions
from patchkit.series.release import is_release, release
from patchkit.tree.git import commit_or_none, git, require_repository
from patchkit.tree.limits import read_named
from patchkit.tree.modes import PLAIN
from patchkit.tree.objects import GitRepository, GitTree
from patchkit.tree.outside import has_outside, keeps_modes
from patchkit.tree.sglang import PLACES
from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.drafting.change import Facts, GivenFile
    from patchkit.tree.tree import Tree

SERIES = "series"
"""The file of a folder that names its patches in order, as quilt's."""
_ENDS = (".patch", ".diff")


class Given(NamedTuple):
    """How a change was given, to be written back so: its file, if it is no commit, and its text in it.

    ``prefixes`` are what stands before the names of its files, and ``place`` is the package's place below these.
    """

    file: Path | None = None
    text: str = ""
    prefixes: tuple[str, str] = ("a/", "b/")
    place: str = PLACES[0]


_COMMIT = Given()


@dataclass(frozen=True)
class GivenChange:
    """A change: facts about it, its base tree, its files in the package and those outside it, and how it was given."""

    facts: Facts
    base: Tree
    files: tuple[GivenFile, ...]
    left_out: tuple[str, ...] = ()
    outside: tuple[GivenFile, ...] = ()
    given: Given = _COMMIT

    @property
    def title(self) -> str:
        """Its title, or the name of its file."""
        return self.facts.title or (self.given.file.name if self.given.file else "")


class Source:
    """Commits, ranges, diffs, mailboxes and folders of patches, and their base tree."""

    def __init__(self, names: Sequence[str], base: str, repository: Path) -> None:
        """Read nothing yet; ``repository`` is where commits and refs are looked up."""
        self._names = names
        self._base = base
        self._repository = repository
        self._stack = ExitStack()
        self._git: GitRepository | None = None
        self._based: Tree | None = None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _objects(self) -> GitRepository:
        if self._git is None:
            self._git = self._stack.enter_context(GitRepository(self._repository))
        return self._git

    def tree(self, name: str) -> Tree:
        """Return the tree of a path, a ref or a release; TreeError if there is none."""
        if Path(name).exists():
            return open_tree(Path(name))
        if is_release(name) and commit_or_none(self._repository, name) is None:
            tag = f"v{name}"
            return release(name) if commit_or_none(self._repository, tag) is None else self.tree(tag)
        return GitTree(self._objects, name)

    def require(self, name: str) -> None:
        """Raise UsageError if a name is neither a path nor a commit nor a release."""
        if os.path.exists(name) or is_release(name) or commit_or_none(self._repository, name) is not None:
            return
        require_repository(self._repository, "name a folder, or a ref's repository with --repo")
        raise UsageError(
            f"{name} is neither a folder nor a ref of {self._repository.resolve()}",
            advice="name a folder, a release, or a ref and its repository with --repo",
        )

    def _from(self) -> Tree | None:
        """Return the base tree that was named, if any; UsageError if it is no tree."""
        if self._base and self._based is None:
            self.require(self._base)
            self._based = self.tree(self._base)
        return self._based

    @property
    def folders(self) -> list[Path]:
        """The folders of patches."""
        return [path for path in map(Path, self._names) if path.is_dir()]

    def changes(self, onto: Tree) -> tuple[GivenChange, ...]:
        """Return the changes in order, each on the tree that those before it leave, for a port to ``onto``.

        Raise UsageError if a name is none of a change, a diff does not fit its base, or nothing is changed.
        """
        changes: list[GivenChange] = []
        for change in self._read(onto, {}):
            here = tuple(file for file in change.outside if has_outside(onto, file.file))
            others = [difference.outside(file) for file in change.outside if file not in here]
            files = change.files
            modes = {file: note for file in (*files, *here) if (note := difference.left_mode(file))}
            if modes and not keeps_modes(onto):
                others += modes.values()
                plain = {file: replace(file, modes=(PLAIN, PLAIN)) for file in modes}
                here = tuple(plain.get(file, file) for file in here)
                files = tuple(plain.get(file, file) for file in files)
            left_out = tuple(dict.fromkeys((*change.left_out, *others)))
            changes.append(replace(change, files=files, outside=here, left_out=left_out))
        if not any(change.files or change.outside for change in changes):
            raise UsageError(
                f"{', '.join(self._names)} changes nothing in the package",
                reasons=[part for change in changes for part in change.left_out] or ["it is empty"],
                advice="name a diff or a commit that changes files of sglang's package",
            )
        return _named(changes)

    def _read(self, onto: Tree, made: dict[str, GivenFile]) -> Iterator[GivenChange]:
        commits = {name: self._commits(name) for name in self._names if not Path(name).exists()}
        # Misspelt names are refused before a release is downloaded.
        base = self._from()
        for name in self._names:
            path = Path(name)
            if name in commits:
                yield from (self._commit(commit, base) for commit in commits[name])
            else:
                for file in patches_in(path) if path.is_dir() else (path,):
                    yield from self._diffs(file, base, onto, made)

    def _diffs(
        self, path: Path, base: Tree | None, onto: Tree, made: dict[str, GivenFile]
    ) -> Iterator[GivenChange]:
        """Yield the change of a diff, or of each mail of a series; ``made`` is what those before it made."""
        try:
            text = read_named(path).decode()
        except UnicodeDecodeError:
            raise UsageError("not UTF-8", where=path, advice="convert it and try again") from None
        name = _name_of(path.name)
        options = DiffOptions(str(path), "--from", "--from TREE, or with --from HEAD^ --repo REPO")
        mails = difference.mails(text)
        blob = self._blob if base is None else None
        for number, mail in enumerate(mails, 1):
            facts = difference.facts_of_diff(name, mail, path)
            if len(mails) > 1:
                facts = replace(facts, id=facts.upstream.rpartition("/")[2] or f"{name}-{number}")
            tree = difference.overlaid(base or onto, made.values())
            diff = difference.of_diffs(tree, (mail,), options=options, blob=blob)
            if not (diff.files or diff.outside or diff.left_out):
                raise UsageError(
                    "it contains no unified diff", where=path, advice="name a diff or a mail with one"
                )
            every = (*diff.files, *(file for file in diff.outside if not file.hunks))
            if base is None:
                tree = difference.overlaid(tree, every, side=0)
            given = Given(path, mail, diff.prefixes, diff.place)
            yield GivenChange(facts, tree, diff.files, diff.left_out, diff.outside, given)
            made |= {file.file: file for file in every}

    def _blob(self, identifier: str) -> bytes | None:
        """Return a file's content by its id in the repository."""
        if commit_or_none(self._repository, "HEAD") is None:
            return None
        blob = self._objects.object(f"{identifier}^{{blob}}")
        return blob[1] if blob is not None else None

    def _commits(self, name: str) -> list[str]:
        options = ("--reverse", "--no-merges") if ".." in name else ("--no-walk",)
        listed = git(self._repository, "rev-list", *options, "--end-of-options", name, "--")
        commits = listed.stdout.decode().split()
        if listed.returncode != 0 or not commits:
            require_repository(
                self._repository, "name a diff that exists, or the commit's repository with --repo"
            )
            raise UsageError(
                f"{name} is neither a file nor a commit of {self._repository.resolve()}",
                advice="name a diff, a folder, a commit or a range, and its repository with --repo",
            )
        return commits

    def _commit(self, commit: str, base: Tree | None) -> GivenChange:
        diff = difference.of_commit(self._repository, commit, option="")
        facts = difference.facts_of_commit(self._repository, commit[:12], commit)
        number = facts.upstream.rpartition("/")[2]
        facts = replace(facts, id=number) if number else facts
        tree = base if base is not None else self.tree(f"{commit}^")
        return GivenChange(facts, tree, diff.files, diff.left_out, diff.outside)


def patches_in(folder: Path) -> list[Path]:
    """Return the patches of a folder: those that its file ``series`` names, or all by name. UsageError for none."""
    listed = folder / SERIES
    if listed.is_file():
        lines = read_named(listed).decode(errors="replace").split("\n")
        names = [name for line in lines if (name := listed_name(line)) is not None]
    else:
        names = sorted(path.name for path in folder.iterdir() if path.name.endswith(_ENDS))
    missing = next((name for name in names if not (folder / name).is_file()), None)
    if missing is not None:
        raise UsageError(
            f"{missing} does not exist", where=listed, advice="remove its line, or restore the file"
        )
    if not names:
        raise UsageError("no patch is in the folder", where=folder, advice="name a folder with *.patch files")
    return [folder / name for name in names]


def listed_name(line: str) -> str | None:
    """Return the patch that a line of the file ``series`` names, without options and comments, or None."""
    return next(iter(line.split("#", maxsplit=1)[0].split()), None)


def _named(changes: Sequence[GivenChange]) -> tuple[GivenChange, ...]:
    """Return changes with an id of their own for each that is not a commit."""
    named_changes: list[GivenChange] = []
    used: set[str] = set()
    for number, change in enumerate(changes, 1):
        facts = change.facts
        if change.given.file is not None and facts.id in used:
            facts = replace(facts, id=f"{_name_of(change.given.file.name)}-{number}")
        used.add(facts.id)
        named_changes.append(replace(change, facts=facts))
    return tuple(named_changes)


def _name_of(file: str) -> str:
    """Return a name for a change that is made of the name of its file."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(file).stem).strip("-.") or "ported"
