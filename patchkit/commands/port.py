"""Port a change to a tree that has drifted, with the outcome of each edit."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from patchkit.change.edits import Outcome
from patchkit.change.follow import Trees
from patchkit.change.land import NOT_MADE, land
from patchkit.commands.patch_folder import staged
from patchkit.drafting import difference
from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.findings.plural import counted
from patchkit.patchset.patch import Patch
from patchkit.patchset.unified import DiffOptions
from patchkit.plan.status import EditStatus, FileChange, PatchStatus, Plan, State
from patchkit.porting.dependencies import dependencies_of
from patchkit.porting.findings import findings_of
from patchkit.series.port import commit_ports
from patchkit.transaction.apply import Transaction
from patchkit.transaction.conflicts import read_without_conflicts
from patchkit.tree.git import commit_of, commit_or_none, git, require_repository
from patchkit.tree.limits import read_named
from patchkit.tree.objects import GitRepository, GitTree
from patchkit.tree.tree import OverlayTree, open_tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from patchkit.change.land import LandedFile, Watch
    from patchkit.drafting.change import Draft, Facts
    from patchkit.findings.finding import Finding
    from patchkit.tree.tree import CheckoutTree, ReadTree, Tree

    Contents = Mapping[str, bytes | None]

_MADE = frozenset({Outcome.LANDED, Outcome.CHANGED})


@dataclass(frozen=True)
class Change:
    """A change: facts about it, its base tree and its files."""

    facts: Facts
    base: Tree
    files: tuple[FileChange, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class PortedChange:
    """The outcome of a change in a tree; ``commit`` is the commit made there, if any."""

    change: Change
    files: tuple[LandedFile, ...]
    findings: tuple[Finding, ...] = ()
    commit: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether all of its edits are there now."""
        return all(file.is_whole for file in self.files)

    @property
    def is_settled(self) -> bool:
        """Whether it is whole, and nothing about it is for a person to judge."""
        adapted = any(edit.outcome is Outcome.CHANGED for file in self.files for edit in file.edits)
        return self.is_whole and not (adapted or self.findings or self.change.left_out)

    @property
    def is_made(self) -> bool:
        """Whether an edit of it was made, and not found."""
        return any(edit.outcome in _MADE for file in self.files for edit in file.edits)


@dataclass(frozen=True)
class PortResult:
    """The outcome of changes in one tree; ``changed`` are the files that changed, or would change.

    ``not_ported`` are the changes that were not tried, since the conflicts of one before them are marked.
    """

    onto: str
    changes: tuple[PortedChange, ...]
    changed: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    error: str = ""
    not_ported: tuple[Change, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every edit is there now."""
        return not (self.error or self.not_ported) and all(change.is_whole for change in self.changes)

    @property
    def is_settled(self) -> bool:
        """Whether every edit is there now, and nothing is for a person to judge."""
        return self.is_whole and all(change.is_settled for change in self.changes)


class PortConflictError(ConflictError):
    """Some edits cannot be made, and nothing was written; ``ported`` has the outcome of each."""

    def __init__(self, what: str, ported: PortResult, *, advice: str) -> None:
        super().__init__(what, advice=advice)
        self.ported = ported


class Source:
    """A diff, a commit or a range of commits, and its base tree."""

    def __init__(self, name: str, base: str, repository: Path) -> None:
        """Read nothing yet; ``repository`` is where commits and refs are looked up."""
        self._name = name
        self._base = base
        self._repository = repository
        self._stack = ExitStack()
        self._git: GitRepository | None = None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tree(self, name: str) -> Tree:
        """Return the tree of a path or ref; TreeError if there is none."""
        if Path(name).exists():
            return open_tree(Path(name))
        if self._git is None:
            self._git = self._stack.enter_context(GitRepository(self._repository))
        return GitTree(self._git, name)

    def require(self, name: str) -> None:
        """Raise UsageError if a name is neither a path nor a commit."""
        if not os.path.exists(name) and commit_or_none(self._repository, name) is None:
            require_repository(self._repository, "name a folder, or a ref's repository with --repo")
            raise UsageError(
                f"{name} is neither a folder nor a ref of {self._repository.resolve()}",
                advice="name a folder, or a ref and its repository with --repo",
            )

    def _from(self) -> Tree:
        """Return the base tree that was named; UsageError if it is neither a path nor a commit."""
        if not Path(self._base).exists():
            commit_of(self._repository, self._base)
        return self.tree(self._base)

    def changes(self) -> tuple[Change, ...]:
        """Return the changes, oldest first; UsageError if it is neither a diff nor a commit, or changes nothing."""
        path = Path(self._name)
        found = self._diffs(path) if path.is_file() else tuple(map(self._commit, self._commits()))
        if not any(change.files for change in found):
            nothing = "it contains no unified diff" if path.is_file() else "it is empty"
            left_out = [part for change in found for part in change.left_out]
            raise UsageError(
                f"{self._name} changes nothing in the package",
                reasons=left_out or [nothing],
                advice="name a diff or a commit that changes files of sglang's package",
            )
        return found

    def _diffs(self, path: Path) -> tuple[Change, ...]:
        """Return the change of a diff, or of each mail of a series, on the tree that the mails before it leave."""
        if not self._base:
            raise UsageError("a diff does not name its tree", where=path, advice="name it with --from TREE")
        base = self._from()
        try:
            text = read_named(path).decode()
        except UnicodeDecodeError:
            raise UsageError("not UTF-8", where=path, advice="convert it and try again") from None
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.") or "ported"
        options = DiffOptions(str(path), "--from", "--from TREE, or with --from HEAD^ --repo REPO")
        mails = difference.mails(text)
        found: list[Change] = []
        for number, mail in enumerate(mails, 1):
            facts = difference.facts_of_diff(name, mail, path)
            if len(mails) > 1:
                pull = facts.upstream.rpartition("/")[2]
                is_new = pull and pull not in {each.facts.id for each in found}
                facts = replace(facts, id=pull if is_new else f"{name}-{number}")
            diff = difference.of_diffs(base, (mail,), options=options)
            found.append(Change(facts, base, diff.files, diff.left_out))
            base = OverlayTree(base, {each.file: each.after for each in diff.files})
        return tuple(found)

    def _commits(self) -> list[str]:
        options = ("--reverse", "--no-merges") if ".." in self._name else ("--no-walk",)
        listed = git(self._repository, "rev-list", *options, "--end-of-options", self._name, "--")
        commits = listed.stdout.decode().split()
        if listed.returncode != 0 or not commits:
            require_repository(
                self._repository, "name a diff that exists, or the commit's repository with --repo"
            )
            raise UsageError(
                f"{self._name} is neither a file nor a commit of {self._repository.resolve()}",
                advice="name a diff, a commit or a range, and its repository with --repo",
            )
        return commits

    def _commit(self, commit: str) -> Change:
        diff = difference.of_commit(self._repository, commit, option="")
        facts = difference.facts_of_commit(self._repository, commit[:12], commit)
        number = facts.upstream.rpartition("/")[2]
        facts = replace(facts, id=number) if number else facts
        base = self._from() if self._base else self.tree(f"{commit}^")
        return Change(facts, base, diff.files, diff.left_out)


def port(
    source: Source,
    onto: CheckoutTree,
    *,
    keep_going: bool = False,
    markers: bool = False,
    allow_dirty: bool = False,
    dry_run: bool = False,
    committing: bool = False,
    folder: Path | None = None,
    watch: Watch | None = None,
) -> PortResult:
    """Make changes in a tree and write the result as ``apply`` does, or commit it if ``committing``.

    PortConflictError, and nothing written, if an edit cannot be made. With ``keep_going`` the other edits are made;
    with ``markers`` conflict markers are written as well, and later changes are not tried. TreeError if the tree cannot
    be changed. The change is also written to ``folder``, as a patch for this tree.
    """

    def prepare(read: ReadTree) -> _PreparedPort:
        if folder is not None:
            _require_new(folder)
        changes = source.changes()
        tree = _PortedTree(read, markers=markers)
        steps: list[_Step] = []
        for change in _watched(changes, watch):
            # Of a range each change is one step, of a change alone each file.
            steps.append(tree.step(change, watch if len(changes) == 1 else None))
            if markers and not steps[-1].ported.is_whole:
                break
        done = tuple(step.ported for step in steps)
        ported = PortResult(onto.package_label, done, tree.changed, not_ported=changes[len(steps) :])
        if not ported.is_whole and not (keep_going or markers):
            raise PortConflictError(
                f"{_describe_first_conflict(ported)}, so nothing was written",
                ported,
                advice="--keep-going applies the others, --markers also writes conflict markers",
            )
        plan = tree.plan(steps)
        if dry_run and not committing:
            Transaction(read, ported=True, allow_dirty=allow_dirty).check(plan)
        return _PreparedPort(read, steps, plan, ported)

    read, steps, plan, ported = read_without_conflicts(onto, prepare)
    drafts = _drafts(steps, folder, watch) if folder is not None and not dry_run else {}
    with staged(drafts):
        if committing:
            concerned = frozenset[str]().union(*(step.concerned for step in steps))
            commits = commit_ports(
                onto, plan, [(step.ported.change.facts, step.plan) for step in steps], concerned
            )
            done = tuple(
                replace(step.ported, commit=commit) for step, commit in zip(steps, commits, strict=True)
            )
            ported = replace(ported, changes=done)
        elif not dry_run:
            separate = [step.plan for step in steps if step.plan.changes]
            Transaction(onto, ported=True, allow_dirty=allow_dirty).commit(plan, separate, read)
    return replace(ported, folders=tuple(drafts))


def port_matrix(source: Source, refs: Sequence[str], *, watch: Watch | None = None) -> tuple[PortResult, ...]:
    """Return the outcome of changes in several trees, without writing; a ref without a tree has an ``error``."""
    for ref in refs:
        source.require(ref)
    changes = source.changes()
    found: list[PortResult] = []
    for at, ref in enumerate(refs):
        if watch is not None:
            watch(f"trees: porting to {ref}", at, len(refs))
        try:
            tree = _PortedTree(source.tree(ref), markers=False)
            steps = [tree.step(change) for change in changes]
            found.append(PortResult(ref, tuple(step.ported for step in steps), tree.changed))
        except TreeError as error:
            found.append(PortResult(ref, (), error=str(error)))
    return tuple(found)


def _watched(changes: Sequence[Change], watch: Watch | None) -> Iterator[Change]:
    for at, change in enumerate(changes):
        if watch is not None and len(changes) > 1:
            watch(f"commits: porting {change.facts.id}", at, len(changes))
        yield change


def _describe_first_conflict(ported: PortResult) -> str:
    """Return how many edits cannot be made, and the site of the first, for a message."""
    conflicts = [
        (file, edit)
        for change in ported.changes
        for file in change.files
        for edit in file.edits
        if edit.outcome in NOT_MADE
    ]
    file, edit = conflicts[0]
    where = f"{file.onto}: {edit.site}" if edit.site else file.onto
    return f"{counted(len(conflicts), 'edit')} cannot be applied ({where}: {edit.reason})"


@dataclass(frozen=True)
class _Step:
    """One change, made after the ones before it."""

    ported: PortedChange
    tree: Tree
    plan: Plan
    concerned: frozenset[str]


class _PreparedPort(NamedTuple):
    """What is to be written: the steps, their plan together and their outcome, from the tree as it was ``read``."""

    read: ReadTree
    steps: list[_Step]
    plan: Plan
    ported: PortResult


class _PortedTree:
    """A tree to which changes are made one after the other."""

    def __init__(self, onto: Tree, *, markers: bool) -> None:
        self._onto = onto
        self._markers = markers
        self._contents: dict[str, bytes | None] = {}

    @property
    def changed(self) -> tuple[str, ...]:
        """The files that differ from the original tree."""
        return tuple(file for file, text in sorted(self._contents.items()) if text != self._onto.read(file))

    def step(self, change: Change, watch: Watch | None = None) -> _Step:
        """Make a change."""
        tree = OverlayTree(self._onto, dict(self._contents))
        sources = {each.file: (each.before, each.after) for each in change.files}
        name = change.facts.id if self._markers else ""
        landing = land(sources, Trees(change.base, tree), name, watch=watch)
        contents = landing.marked if self._markers else landing.contents
        self._contents |= contents
        plan = _plan(tree, change, landing.files, contents)
        applied = [(status.patch, edit) for status in plan.patches for edit in status.edits]
        found = findings_of(tree, landing.contents, applied, change.base, sources)
        known = {(each.rule, each.file, each.line) for each in found}
        used = dependencies_of(tree, sources, landing)
        found += tuple(each for each in used if (each.rule, each.file, each.line) not in known)
        return _Step(PortedChange(change, tuple(landing.files), found), tree, plan, landing.concerned)

    def plan(self, steps: Sequence[_Step]) -> Plan:
        """Return the plan of all steps together."""
        makers: dict[str, list[str]] = {}
        for step in steps:
            for change in step.plan.changes:
                makers.setdefault(change.file, []).extend(change.patches)
        changes = tuple(
            FileChange(file, self._onto.read(file), self._contents[file], tuple(dict.fromkeys(makers[file])))
            for file in self.changed
        )
        return Plan(self._onto, tuple(status for step in steps for status in step.plan.patches), changes)


def _plan(tree: Tree, change: Change, files: Sequence[LandedFile], contents: Contents) -> Plan:
    """Return the plan of one change, for a transaction."""
    facts = change.facts
    patch = Patch(id=facts.id, title=facts.title or facts.id, why=facts.why, risk="", verify="", edits=())
    edits = tuple(
        EditStatus(f"edit-{number}", file.onto, edit.site, State.PENDING)
        for number, (file, edit) in enumerate(((file, edit) for file in files for edit in file.edits), 1)
        if edit.outcome in _MADE
    )
    changes = tuple(
        FileChange(file, tree.read(file), text, (facts.id,))
        for file, text in sorted(contents.items())
        if tree.read(file) != text
    )
    return Plan(tree, (PatchStatus(patch, State.PENDING, edits),), changes)


def _drafts(steps: Sequence[_Step], folder: Path, watch: Watch | None) -> dict[Path, Draft]:
    """Return each change as a patch for this tree, by its folder: ``folder`` itself for one, else a folder in it."""
    from patchkit.drafting.patch import (
        draft_patch,
    )  # It loads all kinds of edit, which nothing else of a port does.

    found: dict[Path, Draft] = {}
    for step in steps:
        change = step.ported.change
        draft = draft_patch(step.tree, step.plan.changes, change.facts, change.left_out, watch=watch)
        place = folder if len(steps) == 1 else folder / change.facts.id
        if draft.files:
            _require_new(place)
            found[place] = draft
    return found


def _require_new(folder: Path) -> None:
    if os.path.exists(folder / "patch.toml"):
        raise UsageError(f"{folder / 'patch.toml'} already exists", advice="name another folder with -o")
