"""Port a change to a tree that has drifted, with the outcome of each edit."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from patchkit.change.edits import EditOutcome, Outcome
from patchkit.change.follow import Trees
from patchkit.change.land import NOT_MADE, LandedFile, land
from patchkit.change.tokens import words
from patchkit.commands.patch_folder import staged
from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.findings.plural import counted
from patchkit.patchset.patch import Patch
from patchkit.plan import record
from patchkit.plan.status import EditStatus, FileChange, PatchStatus, Plan, State
from patchkit.porting.dependencies import dependencies_of
from patchkit.porting.findings import findings_of
from patchkit.porting.text import IS_LINK, merged, mode_edit
from patchkit.series.commit import require_committable
from patchkit.series.patches import Written, patches
from patchkit.series.port import commit_ports
from patchkit.transaction.apply import Transaction
from patchkit.transaction.conflicts import read_without_conflicts
from patchkit.transaction.current import absent, current_record
from patchkit.transaction.edited import edited_names
from patchkit.transaction.store import Store
from patchkit.tree.git import object_id
from patchkit.tree.modes import LINK, NO_FILE, PLAIN
from patchkit.tree.outside import content, entry, shown
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from patchkit.change.land import Landing, Watch
    from patchkit.findings.finding import Finding
    from patchkit.plan.record import Layer
    from patchkit.series.source import GivenChange, Source
    from patchkit.tree.tree import CheckoutTree, Contents, ReadTree, Tree

_MADE = frozenset({Outcome.LANDED, Outcome.CHANGED})
_RESOLVED = EditOutcome("", Outcome.ALREADY, "a person resolved its conflict in this tree")
_EDITED = EditOutcome("", Outcome.ALREADY, "a person changed it in this tree")


@dataclass(frozen=True)
class PortedChange:
    """The outcome of a change in a tree; ``commit`` is the commit made there, if any.

    ``outside`` are its links and its files outside the package. Of a series, a change that is not whole is ``skipped``,
    and ``needs`` are the skipped ones before it that change the same code, or that define what it uses.
    """

    change: GivenChange
    files: tuple[LandedFile, ...]
    outside: tuple[LandedFile, ...] = ()
    findings: tuple[Finding, ...] = ()
    commit: str = ""
    skipped: bool = False
    needs: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether all of its edits in the package are there now."""
        return not self.skipped and all(file.is_whole for file in self.files)

    @property
    def is_clean(self) -> bool:
        """Whether it is whole, with its files outside the package, and nothing about it is for a person to judge."""
        edits = [edit for file in self.files for edit in file.edits]
        adapted = any(edit.outcome is Outcome.CHANGED or edit.loses_comment for edit in edits)
        is_complete = all(file.is_whole for file in self.outside) and not self.change.left_out
        return self.is_whole and is_complete and not (adapted or self.findings)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The files of which a part or all is left out: an edit that was not made, a submodule, a place outside."""
        inside = [file.onto for file in self.files if not file.is_whole]
        outside = [shown(file.file) for file in self.outside if not file.is_whole]
        named = (part.partition(": ")[0] for part in self.change.left_out)
        return tuple(dict.fromkeys((*inside, *outside, *named)))

    @property
    def is_made(self) -> bool:
        """Whether an edit of it was made, and not found."""
        outside = any(edit.outcome in _MADE for file in self.outside for edit in file.edits)
        return self.is_revertible or (outside and not self.skipped)

    @property
    def is_revertible(self) -> bool:
        """Whether an edit of it was made in the package: ``revert`` leaves the files outside as they are."""
        return not self.skipped and any(edit.outcome in _MADE for file in self.files for edit in file.edits)


@dataclass(frozen=True)
class PortResult:
    """The outcome of changes in one tree; ``changed`` are the files that changed, or would change.

    ``not_ported`` are the changes that were not tried, since the conflicts of one before them are marked. ``written``
    are the patches of the series for this tree.
    """

    onto: str
    changes: tuple[PortedChange, ...]
    changed: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()
    error: str = ""
    not_ported: tuple[GivenChange, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every edit is there now."""
        return not (self.error or self.not_ported) and all(change.is_whole for change in self.changes)

    @property
    def is_clean(self) -> bool:
        """Whether every edit is there now, and nothing is for a person to judge."""
        return self.is_whole and all(change.is_clean for change in self.changes)


class PortConflictError(ConflictError):
    """Some edits cannot be made, and nothing was written; ``ported`` has the outcome of each."""

    def __init__(self, what: str, ported: PortResult, *, advice: str) -> None:
        super().__init__(what, advice=advice)
        self.ported = ported


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

    PortConflictError, and nothing written, if an edit cannot be made. With ``keep_going`` the other edits are made, or
    of several changes the others; with ``markers`` conflict markers are written as well, and later changes are not
    tried. TreeError if the tree cannot be changed. The series is also written to ``folder``, as patches for this tree.
    """

    def prepare(read: ReadTree) -> _PreparedPort:
        changes = source.changes(read)
        edited = edited_names(read)
        tree = _PortedTree(read, markers=markers, earlier=_earlier(read), edited=edited)
        steps: list[_Step] = []
        for change in _watched(changes, watch):
            # Of a range each change is one step, of a change alone each file.
            steps.append(tree.step(change, watch if len(changes) == 1 else None, alone=len(changes) == 1))
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
        _require_names(read, [step.ported.change for step in steps])
        if dry_run and not committing:
            Transaction(read, ported=True, allow_dirty=allow_dirty).check(plan)
        return _PreparedPort(read, steps, plan, ported)

    if committing:
        require_committable(onto)
    read, steps, plan, ported = read_without_conflicts(onto, prepare)
    written = _patches(source, steps, folder, read) if folder is not None and not dry_run else {}
    with staged(written):
        if committing:
            concerned = frozenset[str]().union(*(step.concerned for step in steps))
            commits = commit_ports(
                onto,
                plan,
                [(step.ported.change.facts, step.plan, step.ported.left_out) for step in steps],
                concerned,
            )
            done = tuple(
                replace(step.ported, commit=commit) for step, commit in zip(steps, commits, strict=True)
            )
            ported = replace(ported, changes=done)
        elif not dry_run:
            separate = [step.plan for step in steps if step.plan.changes]
            Transaction(onto, ported=True, allow_dirty=allow_dirty).commit(plan, separate, read)
    return replace(ported, written=_paths(written))


def port_matrix(
    source: Source,
    refs: Sequence[str],
    *,
    keep_going: bool = False,
    folder: Path | None = None,
    watch: Watch | None = None,
) -> tuple[PortResult, ...]:
    """Return the outcome of changes in several trees, which are not written; a ref without a tree has an ``error``.

    The series for a single one is written to ``folder``, if each change is whole or with ``keep_going``.
    """
    for ref in refs:
        source.require(ref)
    results: list[PortResult] = []
    for number, ref in enumerate(refs):
        if watch is not None and len(refs) > 1:
            watch(f"trees: porting to {ref}", number, len(refs))
        try:
            onto = source.tree(ref)
            changes = source.changes(onto)
            tree = _PortedTree(onto, markers=False)
            watched = _watched(changes, watch if len(refs) == 1 else None)
            steps = [tree.step(change, alone=len(changes) == 1) for change in watched]
            ported = PortResult(ref, tuple(step.ported for step in steps), tree.changed)
            if folder is not None and (ported.is_whole or keep_going):
                written = _patches(source, steps, folder)
                with staged(written):
                    pass
                ported = replace(ported, written=_paths(written))
            results.append(ported)
        except TreeError as error:
            results.append(PortResult(ref, (), error=str(error)))
    return tuple(results)


def _patches(
    source: Source, steps: Sequence[_Step], folder: Path, tree: ReadTree | None = None
) -> dict[Path, dict[str, bytes]]:
    """Return the series as patches for its new tree, by folder. Raise UsageError if one of them exists.

    What an earlier port made in ``tree`` is in them too.
    """
    earlier = _earlier(tree) if tree is not None else {}
    written: list[Written] = []
    for step in steps:
        contents = step.plan.changes
        layer = earlier.get(_form(step.ported.change))
        if tree is not None and layer is not None and not contents:
            contents = _made_earlier(step.ported, layer, tree)
        written.append(Written(step.ported.change, contents, step.ported.left_out))
    files = patches(written, source.folders)
    existing = next((name for name in files if os.path.lexists(folder / name)), None)
    if existing is not None:
        raise UsageError(f"{folder / existing} already exists", advice="name another folder with -o")
    return {folder: files} if files else {}


def _paths(written: Mapping[Path, Iterable[str]]) -> tuple[Path, ...]:
    return tuple(folder / name for folder, files in written.items() for name in files)


def _require_names(tree: ReadTree, changes: Iterable[GivenChange]) -> None:
    """Raise TreeError for a change whose record would replace that of another one, of which the tree has nothing."""
    hidden, recorded = absent(tree), record.read(tree).patches
    for change in changes:
        name = change.facts.id
        if name in hidden and recorded[name].form != _form(change):
            raise TreeError(
                f"another change is recorded as {name}, and not in the tree",
                where=hidden[name],
                advice="git stash pop, if a stash has it, or remove that file; or port a file of another name",
            )


def _earlier(tree: ReadTree) -> dict[str, Layer]:
    """Return what earlier ports made in a tree, by the forms of their changes."""
    ports = (layer for layer in current_record(tree).layers if layer.is_ported)
    return {patch.form: layer for layer in ports for patch in layer.patches if patch.form}


def _made_earlier(ported: PortedChange, layer: Layer, tree: ReadTree) -> tuple[FileChange, ...]:
    """Return the files of a change that an earlier port made, before and after it."""
    get, given = Store(tree.package).get, ported.change
    before = {
        file: get(applied.original) if applied.original else None for file, applied in layer.files.items()
    }
    after = {file: get(applied.applied) if applied.applied else None for file, applied in layer.files.items()}
    undone = [
        replace(file, before=file.after, after=file.before, modes=file.modes[::-1])
        for file in given.outside
        if not file.hunks
    ]
    _, others, modes = merged(undone, tree)
    homes = {file.file: file.onto for file in ported.files}
    for file_of_change in given.files:
        file = homes.get(file_of_change.file, file_of_change.file)
        if file_of_change.before is not None and mode_edit(file_of_change, tree, file) is not None:
            modes[file] = file_of_change.modes[0]
            before.setdefault(file, content(tree, file))
    was, now = OverlayTree(tree, before | others, modes), OverlayTree(tree, after)
    sides = ((file, entry(was, file), entry(now, file)) for file in was.contents)
    return tuple(FileChange(file, old[1], new[1], modes=(old[0], new[0])) for file, old, new in sides)


def _watched(changes: Sequence[GivenChange], watch: Watch | None) -> Iterator[GivenChange]:
    for number, change in enumerate(changes):
        if watch is not None and len(changes) > 1:
            watch(f"commits: porting {change.facts.id}", number, len(changes))
        yield change


def _describe_first_conflict(ported: PortResult) -> str:
    """Return how many edits cannot be made, and the site of the first, for a message."""
    conflicts = [
        (change, file, edit)
        for change in ported.changes
        for file in change.files
        for edit in file.edits
        if edit.outcome in NOT_MADE
    ]
    change, file, edit = conflicts[0]
    where = f"{file.onto}: {edit.site}" if edit.site else file.onto
    named = f"{change.change.facts.id}: " if len(ported.changes) > 1 else ""
    return f"{counted(len(conflicts), 'edit')} cannot be applied ({named}{where}: {edit.reason})"


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

    def __init__(
        self,
        onto: Tree,
        *,
        markers: bool,
        earlier: Mapping[str, Layer] | None = None,
        edited: Collection[str] = (),
    ) -> None:
        """``earlier`` is what earlier ports made, and ``edited`` are those of which a person changed something."""
        self._onto = onto
        self._markers = markers
        self._earlier = earlier or {}
        self._edited = frozenset(edited)
        self._contents: dict[str, bytes | None] = {}
        self._modes: dict[str, str] = {}
        self._skipped: list[PortedChange] = []

    @property
    def changed(self) -> tuple[str, ...]:
        """The files that differ from the original tree."""
        return tuple(change.file for change in self._changes({}))

    def _changes(self, makers: Mapping[str, Iterable[str]]) -> tuple[FileChange, ...]:
        return _file_changes(self._onto, self._contents, self._modes, makers)

    def step(self, change: GivenChange, watch: Watch | None = None, *, alone: bool) -> _Step:
        """Make a change; one that is not ``alone`` is skipped if it is not whole and gets no markers."""
        tree = OverlayTree(self._onto, dict(self._contents), dict(self._modes))
        sources = {file.file: (file.before, file.after) for file in change.files}
        name = change.facts.id if self._markers else ""
        landing = land(sources, Trees(change.base, tree), name, watch=watch)
        _refuse_links(landing, tree)
        ported = PortedChange(change, tuple(landing.files))
        earlier = self._earlier.get(_form(change))
        if not ported.is_whole and earlier is not None and any(patch.by_hand for patch in earlier.patches):
            return _found(ported, landing, tree, _RESOLVED)
        if earlier is not None and not self._edited.isdisjoint(patch.id for patch in earlier.patches):
            return _found(ported, landing, tree, _EDITED)
        outside, others, modes = merged(change.outside, tree)
        contents = (landing.marked if self._markers else landing.contents) | others
        modes |= _with_modes(change, landing, contents, tree)
        plan = _plan(tree, change, landing.files, contents, modes)
        applied = [(status.patch, edit) for status in plan.patches for edit in status.edits]
        findings = findings_of(tree, landing.contents, applied, change.base, sources)
        identities = {(finding.rule, finding.file, finding.line) for finding in findings}
        used = dependencies_of(tree, sources, landing, change.base)
        findings += tuple(
            finding for finding in used if (finding.rule, finding.file, finding.line) not in identities
        )
        ported = replace(ported, outside=outside, findings=findings)
        needs = _needs(ported, self._skipped)
        if not (alone or self._markers) and (needs or not ported.is_whole):
            ported = replace(ported, skipped=True, needs=needs)
            self._skipped.append(ported)
            return _Step(ported, tree, Plan(tree, (), ()), frozenset())
        self._contents |= contents
        self._modes |= {change.file: change.modes[1] for change in plan.changes}
        pairs = zip(change.outside, outside, strict=True)
        present = {file.file for file, made in pairs if made.outcome is Outcome.ALREADY}
        return _Step(ported, tree, plan, landing.concerned | others.keys() | present)

    def plan(self, steps: Sequence[_Step]) -> Plan:
        """Return the plan of all steps together."""
        makers: dict[str, list[str]] = {}
        for step in steps:
            for change in step.plan.changes:
                makers.setdefault(change.file, []).extend(change.patches)
        statuses = tuple(status for step in steps for status in step.plan.patches)
        return Plan(self._onto, statuses, self._changes(makers))


def _found(ported: PortedChange, landing: Landing, tree: Tree, outcome: EditOutcome) -> _Step:
    """Return the step of a change that a person finished or changed in the tree, which is not made again."""
    files = tuple(LandedFile(file.file, file.onto, [outcome]) for file in landing.files)
    return _Step(replace(ported, files=files), tree, Plan(tree, (), ()), landing.concerned)


def _plan(
    tree: Tree,
    change: GivenChange,
    files: Sequence[LandedFile],
    contents: Contents,
    modes: Mapping[str, str],
) -> Plan:
    """Return the plan of one change, for a transaction."""
    facts = change.facts
    title = facts.title or facts.id
    patch = Patch(id=facts.id, title=title, why=facts.why, risk="", verify="", edits=(), form=_form(change))
    edits = tuple(
        EditStatus(f"edit-{number}", file.onto, edit.site, State.PENDING)
        for number, (file, edit) in enumerate(((file, edit) for file in files for edit in file.edits), 1)
        if edit.outcome in _MADE
    )
    changes = _file_changes(tree, contents, modes, dict.fromkeys(contents, (facts.id,)))
    return Plan(tree, (PatchStatus(patch, State.PENDING, edits),), changes)


def _file_changes(
    tree: Tree, contents: Contents, modes: Mapping[str, str], makers: Mapping[str, Iterable[str]]
) -> tuple[FileChange, ...]:
    """Return the changes of those files of a tree that differ; a file keeps its mode if ``modes`` has none for it."""
    changed: list[FileChange] = []
    for file, after in sorted(contents.items()):
        mode, before = entry(tree, file)
        new = NO_FILE if after is None else modes.get(file, PLAIN if mode == NO_FILE else mode)
        if (mode, before) != (new, after):
            names = tuple(dict.fromkeys(makers.get(file, ())))
            changed.append(FileChange(file, before, after, names, (mode, new)))
    return tuple(changed)


def _with_modes(
    change: GivenChange, landing: Landing, contents: dict[str, bytes | None], tree: Tree
) -> dict[str, str]:
    """Return the new modes of files of the package, and add what only gets another mode to the ``contents``."""
    files = {file.file: file for file in landing.files}
    modes: dict[str, str] = {}
    for given in change.files:
        landed = files.get(given.file)  # A new name of a renamed file has none.
        file = landed.onto if landed is not None else given.file
        edit = mode_edit(given, tree, file)
        ours = content(tree, file)
        if edit is None or contents.get(file, ours) is None:
            continue
        if landed is not None:
            landed.edits.append(edit)
        if edit.outcome is Outcome.LANDED:
            modes[file] = given.modes[1]
            contents.setdefault(file, ours)
    return modes


def _refuse_links(landing: Landing, tree: Tree) -> None:
    """Leave out the edits of files that are links in a tree."""
    for file in [file for file in landing.contents | landing.marked if entry(tree, file)[0] == LINK]:
        root = landing.roots.get(file)
        for landed in landing.files:
            inside = [edit for edit in landed.edits if edit.place is not None and edit.place.root is root]
            if landed.onto == file or inside:
                landed.edits = [EditOutcome("", Outcome.CONFLICT, IS_LINK)]
        landing.contents.pop(file, None)
        landing.marked.pop(file, None)


def _form(change: GivenChange) -> str:
    """Return a digest of what a change changes, by which it is known when it is ported again."""
    described = [
        (file.file, object_id(file.before or b""), object_id(file.after or b"")) for file in change.files
    ]
    return hashlib.sha256(repr(described).encode()).hexdigest()[:32]


def _needs(ported: PortedChange, skipped: Sequence[PortedChange]) -> tuple[str, ...]:
    """Return the skipped changes before a change that define what is missing for it, or change what it cannot."""
    failed = [edit for file in ported.files for edit in file.edits if edit.outcome in NOT_MADE]
    said = [edit.reason.partition(" is not ")[0] for edit in failed if edit.outcome is Outcome.UNMET]
    missing = {
        word for text in (*said, *(finding.message for finding in ported.findings)) for word in words(text)
    }
    own = _sites(ported) if failed else set()
    return tuple(
        change.change.facts.id
        for change in skipped
        if not own.isdisjoint(_sites(change)) or not missing.isdisjoint(_defined(change.change))
    )


def _sites(ported: PortedChange) -> set[tuple[str, str]]:
    """Return the definitions that a change changes; of a file without any, the file."""
    return {
        (file.file, edit.site)
        for file in ported.files
        for edit in file.edits
        if edit.site or not file.file.endswith(".py") or len(file.edits) == 1
    }


def _defined(change: GivenChange) -> set[str]:
    """Return the names that a change adds."""
    sides = ([file.before for file in change.files], [file.after for file in change.files])
    before, after = (
        {word for text in texts for word in words((text or b"").decode(errors="replace"))} for texts in sides
    )
    return after - before
