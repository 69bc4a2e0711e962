"""What each command does, as a function: a script calls these, gets values, and catches PatchkitError.

Nothing here prints, asks or exits. Trees come from ``tree.tree.open_tree``, patches from ``patchset.load.patches``.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, PatchkitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from patchkit.doctor.diagnosis import Diagnosis
    from patchkit.drafting.draft import Drafted
    from patchkit.drafting.trial import Trial
    from patchkit.findings.finding import Finding
    from patchkit.findings.report import Report
    from patchkit.findings.rule import Rule
    from patchkit.matrix.answer import Matrix, PatchDiff
    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.conflict import Conflict
    from patchkit.plan.status import EditStatus, PatchStatus, Plan, Standing
    from patchkit.series.backports import Backport
    from patchkit.series.commit import Committed
    from patchkit.series.merge import Merged
    from patchkit.transaction.apply import Applied
    from patchkit.transaction.recover import Recovery
    from patchkit.transaction.revert import Reverted
    from patchkit.tree.backends import Heir
    from patchkit.tree.tree import CheckoutTree, Tree
    from patchkit.verify.result import Verdict
    from patchkit.verify.subject import Terms

    Contents = Mapping[str, bytes | None]


class PlanConflictError(ConflictError):
    """Some of the patches conflict with the tree, so none was written; ``plan`` says which and where."""

    def __init__(self, message: str, plan: Plan) -> None:
        super().__init__(message)
        self.plan = plan


@dataclass(frozen=True)
class Move:
    """What becomes of a patch when a tree moves: its state ``now`` and ``then``, and that in words."""

    patch: str
    now: str
    then: str
    said: str
    reason: str


@dataclass(frozen=True)
class Resolved:
    """Whether an edit was recorded as made by hand now, and what was written for it is known elsewhere."""

    recorded: bool
    remembered: bool


@dataclass(frozen=True)
class DraftedPatch:
    """A drafted patch's file, how many edits it has, what a person has to do, and whether they make the diff."""

    file: Path
    edits: int
    todo: tuple[str, ...]
    exact: bool


@dataclass(frozen=True)
class Exported:
    """Each patch's status on the commit that is checked out, and the files written, in order."""

    patches: tuple[PatchStatus, ...]
    files: tuple[Path, ...]


@dataclass(frozen=True)
class CheckedPatch:
    """What is wrong with a patch of one's own; ``examples`` is how many of its examples were run."""

    patch: str
    folder: Path
    examples: int
    faults: tuple[str, ...]


def check_patches(folder: Path, trees: Sequence[Tree] = ()) -> tuple[CheckedPatch, ...]:
    """Run the examples of the patch in ``folder``, or of those one folder below; find undefined names.

    ``trees`` are those whose files the new code has to be right in. UsageError for a malformed patch.
    """
    from patchkit.patchset import load
    from patchkit.patchset.examples import examples_in
    from patchkit.plan.rehearse import faults_of, undefined_in

    patches = load.patches([folder])
    checked = []
    for path in load.files_in(folder):
        patch = patches.get(load.named_in(path))
        examples = examples_in(path.parent)
        faults = [f"{each.shows} {fault}" for each in examples for fault in faults_of(patch, each)]
        for tree in trees:
            faults += undefined_in(tree, patches.select([patch.id], only=True))
        checked.append(CheckedPatch(patch.id, path.parent, len(examples), tuple(faults)))
    return tuple(checked)


def status(tree: CheckoutTree, patches: PatchSet) -> tuple[PatchStatus, ...]:
    """Return each patch's status on ``tree``; TreeError if a write to it is pending or a file is no Python."""
    return standing(tree, patches).patches


def standing(tree: CheckoutTree, patches: PatchSet) -> Standing:
    """Return each patch's status on ``tree``, and which patches its comments name that are not at hand.

    TreeError if a write to it is pending or a file is no Python.
    """
    from patchkit.plan import cache
    from patchkit.transaction.resolve import by_hand
    from patchkit.transaction.unfinished import as_left, before_markers, unfinished
    from patchkit.transaction.write import require_settled
    from patchkit.tree.tree import OverlayTree

    require_settled(tree)
    before = before_markers(tree)
    found = cache.standing(OverlayTree(tree, before) if before else tree, patches)
    left = as_left(found.patches, by_hand(tree), unfinished(tree) if before else {})
    return replace(found, patches=left)


def diff(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> Plan:
    """Return what applying ``ids`` (none: all that are on) with what they need would do; conflicts are states."""
    from patchkit.plan.at_hand import PatchesAtHand
    from patchkit.transaction.at_once import at_once

    planned = _plan(tree, patches, ids, only=False, closely=True)
    return at_once(tree, planned, PatchesAtHand(tree, patches))


def conflicts(plan: Plan) -> tuple[Conflict, ...]:
    """Return what a person needs to see of each conflict of a plan: the site as found, as expected, and the edit."""
    from patchkit.plan.conflict import conflicts

    return conflicts(plan.tree, plan.patches)


def apply(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str] = (),
    *,
    only: bool = False,
    keep_going: bool = False,
    markers: bool = False,
    resolved: bool = False,
    allow_dirty: bool = False,
    dry_run: bool = False,
    runtime: str = "",
) -> Applied:
    """Apply ``ids`` (none: all that are on) with what they require and, unless ``only``, what hardens them.

    ``runtime`` is where patched code gets its runtime: ``import`` from the installed patchkit, ``vendored`` from
    a copy in the tree; without it a tree keeps what it has, and a fresh one imports.
    With ``dry_run`` everything is checked and nothing written. PlanConflictError, and nothing written, if a
    patch conflicts; with ``keep_going`` the others are applied all the same, and with ``markers`` so are those
    edits of it that are certain, and conflict markers stand at the others. With ``resolved`` what a person
    made of the same code elsewhere is written there. TreeError if the tree refuses.
    """
    from patchkit.plan.at_hand import PatchesAtHand
    from patchkit.plan.markers import with_markers
    from patchkit.transaction.apply import Transaction
    from patchkit.transaction.at_once import at_once

    def plan(contents: Contents | None = None, *, closely: bool = resolved or markers) -> Plan:
        return _plan(
            tree,
            patches,
            ids,
            only=only,
            runtime=runtime,
            closely=closely,
            certain=markers,
            contents=contents,
        )

    planned = plan()
    if resolved:
        planned = _resolved(tree, planned, plan, certain=markers)
    left = describe_conflicts(planned.patches)
    if left and not (keep_going or markers):
        offer = "" if resolved else _offer(tree, plan(closely=True))
        raise PlanConflictError(
            f"{left}, so nothing was written: --keep-going applies the others, --markers leaves you the conflicts "
            f"to finish{offer}.",
            planned,
        )
    planned = with_markers(planned) if markers else at_once(tree, planned, PatchesAtHand(tree, patches))
    transaction = Transaction(tree, patches.digest, allow_dirty=allow_dirty)
    heirs = _new_heirs(planned)
    return replace(transaction.check(planned) if dry_run else transaction.commit(planned), heirs=heirs)


def commit(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str] = (),
    *,
    only: bool = False,
    keep_going: bool = False,
    runtime: str = "",
) -> Committed:
    """Apply as ``apply`` does, in one commit a patch on the current branch.

    TreeError, and nothing written, if the files have uncommitted changes or git cannot commit now;
    RefusedCommitError if a hook refuses one: that patch is taken back, those before it stay committed.
    """
    from patchkit.plan.at_hand import PatchesAtHand
    from patchkit.series.commit import commit as committing
    from patchkit.transaction import revert as reverting
    from patchkit.transaction.at_once import at_once

    at_hand = PatchesAtHand(tree, patches)

    def plan(ids: Sequence[str], *, only: bool) -> Plan:
        return at_once(tree, _plan(tree, patches, ids, only=only, runtime=runtime), at_hand)

    planned = plan(ids, only=only)
    conflicts = describe_conflicts(planned.patches)
    if conflicts and not keep_going:
        raise PlanConflictError(
            f"{conflicts}, so nothing was written: --keep-going applies the others.", planned
        )
    return committing(
        tree,
        planned,
        lambda name: plan((name,), only=True),
        patches.digest,
        lambda name: reverting.revert(tree, frozenset({name}), at_hand),
    )


def export(
    tree: CheckoutTree, patches: PatchSet, folder: Path, ids: Sequence[str] = (), *, only: bool = False
) -> Exported:
    """Write to ``folder`` what ``git am`` needs to apply ``ids`` to the commit that is checked out.

    What is in the working tree and not committed does not count. PlanConflictError, and nothing written, if a
    patch conflicts; TreeError if the tree is in no git checkout.
    """
    from patchkit.plan.build import make_series
    from patchkit.series.export import export as exporting
    from patchkit.tree.git import GitRepository, GitTree

    with GitRepository(tree.root) as repository:
        head = GitTree(repository, "HEAD")
        planned, stages = make_series(head, patches.select(ids, only=only))
        conflicts = describe_conflicts(planned.patches)
        if conflicts:
            raise PlanConflictError(f"{conflicts}, so nothing was written: name the others.", planned)
        return Exported(planned.patches, exporting(head, stages, folder))


def _resolved(tree: CheckoutTree, planned: Plan, plan: Callable[[Contents], Plan], *, certain: bool) -> Plan:
    """Return a plan in which the conflicts of ``planned`` that a person resolved elsewhere are so resolved.

    A file in which that does not bring the edits into place is left out; unless what is ``certain`` of a patch in
    conflict is written, so is one with an edit of such a patch.
    """
    from patchkit.plan.resolutions import recalled, with_recalled
    from patchkit.plan.status import State

    found = recalled(tree, conflicts(planned))
    while found:
        made = plan({file: known.text for file, known in found.items()})
        stuck = {s.patch.id for s in made.patches if s.state is State.CONFLICT and not (certain and s.edits)}
        open_ones = {(s.patch.id, e.name) for s in made.patches for e in s.edits if e.state is State.CONFLICT}
        wrong = {
            file
            for file, known in found.items()
            if any(edit in open_ones or edit[0] in stuck for edit in known.edits)
        }
        if not wrong:
            return with_recalled(tree, made, found)
        found = {file: known for file, known in found.items() if file not in wrong}
    return planned


def _offer(tree: CheckoutTree, planned: Plan) -> str:
    """Say how many conflicts of a plan a person resolved elsewhere, as the end of a sentence."""
    from patchkit.plan.resolutions import recalled

    count = sum(len(known.edits) for known in recalled(tree, conflicts(planned)).values())
    return f"; {count} of them you resolved elsewhere, and --resolved writes the same here" if count else ""


def resolve(tree: CheckoutTree, patches: PatchSet, patch: str, edit: str) -> Resolved:
    """Record that a person made an edit, and remember what they wrote where apply had left its conflict.

    UsageError for an unknown edit; ConflictError, and nothing recorded, while its markers stand, if the code
    does not have what the edit is for, or if patchkit made it.
    """
    from patchkit.plan.conflict import at_site
    from patchkit.plan.resolutions import remember
    from patchkit.transaction import resolve as resolving
    from patchkit.transaction.unfinished import advice, before_markers, unfinished
    from patchkit.transaction.write import require_settled
    from patchkit.tree.tree import OverlayTree

    require_settled(tree)
    named = patches.get(patch)
    _require_edit(named, edit)
    if (patch, edit) in resolving.by_hand(tree):
        return Resolved(recorded=False, remembered=False)
    if (patch, edit) in resolving.made(tree):
        raise ConflictError(f"{patch}: {edit} was made by patchkit itself, so there is nothing to record.")
    for file, blocks in unfinished(tree).items():
        for block in blocks:
            if (block.patch, block.edit) == (patch, edit):
                raise ConflictError(
                    f"{file}:{block.start + 1}: the conflict still stands there: {advice(block)}."
                )
    before = before_markers(tree)
    status = _in_place(tree, patches, before, patch, edit)

    def holds(file: str, text: bytes) -> bool:
        try:
            _in_place(tree, patches, {**before, file: text}, patch, edit)
        except PatchkitError:
            return False
        return True

    found = resolving.record_by_hand(tree, named, status, holds)
    if found is None:
        return Resolved(recorded=True, remembered=False)
    conflict = at_site(OverlayTree(tree, {status.file: found.original}), named, status)
    return Resolved(recorded=True, remembered=remember(conflict, found.original, found.text))


def _require_edit(patch: Patch, name: str) -> None:
    import difflib

    names = [edit.name for edit in patch.edits]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"{patch.id} has no edit {name!r}: {hint}patchkit show {patch.id} lists them.")


def _in_place(tree: CheckoutTree, patches: PatchSet, contents: Contents, patch: str, edit: str) -> EditStatus:
    """Return an edit that is in place in files with these contents; ConflictError says what is missing."""
    from patchkit.plan import vendor
    from patchkit.plan.build import inspect
    from patchkit.plan.status import State
    from patchkit.tree.tree import OverlayTree

    chosen = patches.select([patch], only=True)
    if vendor.is_vendored(tree):
        chosen = vendor.pointed(chosen)
    status = next(s for s in inspect(OverlayTree(tree, contents), chosen) if s.patch.id == patch)
    found = [each for each in status.edits if each.name == edit]
    if not found:
        raise ConflictError(
            f"{patch}: {edit} is not for this tree: {status.reason or 'its shape is another'}."
        )
    for each in found:
        if each.state not in {State.APPLIED, State.UPSTREAM}:
            why = each.reason or "patchkit apply can make it"
            raise ConflictError(
                f"{each.file}: {each.site or 'module'}: {patch}: {edit} is not in place: {why}; patchkit diff shows "
                "what it is for."
            )
    return found[0]


def _new_heirs(plan: Plan) -> tuple[Heir, ...]:
    """Return the backends that will inherit an opt-out, which they do not now, and read the mirror."""
    from patchkit.tree.backends import heirs_of
    from patchkit.tree.tree import OverlayTree

    after = {change.file: change.after for change in plan.changes}
    if not after:
        return ()
    known = {(heir.cls.module.file, heir.cls.name) for heir in heirs_of(plan.tree)}
    heirs = heirs_of(OverlayTree(plan.tree, after))
    return tuple(heir for heir in heirs if (heir.cls.module.file, heir.cls.name) not in known)


def describe_conflicts(statuses: Sequence[PatchStatus]) -> str:
    """Name the conflicting patches in the first half of a sentence; empty if there is none."""
    from patchkit.plan.status import State

    ids = [status.patch.id for status in statuses if status.state is State.CONFLICT]
    return f"{', '.join(ids)} {'conflict' if len(ids) > 1 else 'conflicts'} with this tree" if ids else ""


def revert(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> Reverted:
    """Take back ``ids`` (none: all that the code has); edits that a person made since stay.

    ConflictError, and nothing written, if what stood before is not known, or if edits cannot be told apart.
    """
    from patchkit.plan.at_hand import PatchesAtHand
    from patchkit.transaction import revert as reverting

    return reverting.revert(tree, frozenset(ids) or None, PatchesAtHand(tree, patches))


def recover(tree: CheckoutTree) -> Recovery:
    """Finish an interrupted write to ``tree`` or take it back; TreeError if a file was changed since."""
    from patchkit.transaction.recover import recover

    return recover(tree)


def verify(
    tree: CheckoutTree, patches: PatchSet, terms: Terms, watch: Callable[[str, int], None] | None = None
) -> Verdict:
    """Make every check of a patched tree; ``watch`` is told each one's title and of how many it is one."""
    from patchkit.audit import engine as auditing
    from patchkit.verify import engine
    from patchkit.verify.subject import Subject

    _require_whole(tree)
    return engine.verify(Subject(tree, tuple(patches), terms, auditing.audit_cached), watch)


def report(
    tree: CheckoutTree, patches: PatchSet, watch: Callable[[str, int], None] | None = None
) -> tuple[Backport, ...]:
    """Return a row for each patch in ``tree``, which is verified for that; ``watch`` is that of ``verify``."""
    from patchkit import __version__
    from patchkit.findings.finding import Confidence
    from patchkit.series.backports import IN_TREE, backports
    from patchkit.transaction.resolve import by_hand
    from patchkit.verify.result import Outcome
    from patchkit.verify.subject import Terms

    statuses = status(tree, patches)
    if not any(each.state in IN_TREE for each in statuses):
        return ()
    verdict = verify(tree, patches, Terms(Confidence.LIKELY), watch)
    failed = [each.title for each in verdict.results if each.outcome is Outcome.FAILED]
    made = sum(each.outcome is not Outcome.SKIPPED for each in verdict.results)
    said = f"failed: {'; '.join(failed)}" if failed else f"{made} checks passed"
    told = f"{said} (patchkit {__version__} verify)"
    return backports(statuses, by_hand(tree), told)


def audit(
    tree: CheckoutTree,
    baseline: Sequence[Finding] = (),
    *,
    allow_unread: bool = False,
    watch: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Return the reads of the CPU mirror that break when it is None, those in ``baseline`` as known.

    A folder that cannot be read is a finding too; with ``allow_unread`` it is a note. ``watch`` is told what is
    being looked at, how much is done and of how much.
    """
    from patchkit.audit.engine import audit_cached, unread_noted

    _require_whole(tree)
    report = audit_cached(tree, watch)
    return (unread_noted(report) if allow_unread else report).against(baseline)


def matrix(
    repository: Path,
    patterns: Sequence[str],
    patches: PatchSet,
    *,
    verify: bool = False,
    jobs: int | None = None,
    watch: Callable[[str, int, int], None] | None = None,
    diffs: dict[str, tuple[PatchDiff, ...]] | None = None,
    conflicts: dict[str, tuple[Conflict, ...]] | None = None,
    faults: dict[str, tuple[str, ...]] | None = None,
) -> Matrix:
    """Return each patch's state on each ref of ``repository`` that ``patterns`` name; nothing is checked out.

    With ``verify`` a temporary copy of each package is applied to and verified. ``watch`` is told what is being
    done, how much of it is done and of how much; ``diffs`` is filled with what the patches would change, by
    state, ``conflicts`` with the sites of those that conflict, ``faults`` with what is wrong with what they
    make. UsageError for a pattern that names nothing, TreeError if ``repository`` is none.
    """
    from patchkit.matrix.refs import refs
    from patchkit.matrix.survey import survey

    return survey(
        repository,
        refs(repository, patterns),
        patches,
        verify=verify,
        jobs=jobs,
        watch=watch,
        diffs=diffs,
        conflicts=conflicts,
        faults=faults,
    )


def rebase_check(tree: CheckoutTree, patches: PatchSet, ref: str) -> tuple[Move, ...]:
    """Return what becomes of each patch when ``tree`` moves to ``ref`` of its repository; only reads.

    What is ``applied`` on ``ref`` was committed there by patchkit. TreeError for a ref that is none.
    """
    from patchkit.plan.cache import statuses
    from patchkit.tree.git import GitRepository, GitTree

    words = {
        "upstream": "upstream has it there: drop yours",
        "applied": "its commit is there already",
        "pending": "applies there",
        "partial": "applies there, part of it is there already",
        "conflict": "conflicts there",
        "not-applicable": "not for that tree",
    }
    before = {said.patch.id: said for said in status(tree, patches)}
    with GitRepository(tree.root) as repository:
        after = statuses(GitTree(repository, ref), patches)
    return tuple(
        Move(
            said.patch.id,
            before[said.patch.id].state.value,
            said.state.value,
            words[said.state.value],
            said.reason,
        )
        for said in after
    )


def merge(tree: CheckoutTree, patches: PatchSet, ref: str) -> Merged:
    """Merge ``ref`` into the branch of ``tree`` without the patches of either side, then apply those it had.

    ConflictError if the merge itself conflicts, which is left to be resolved; TreeError, and nothing written,
    if the tree has uncommitted changes.
    """
    from patchkit.series.merge import merge as merging
    from patchkit.transaction import revert as reverting

    had = reverting.recorded(tree)
    return merging(
        tree,
        ref,
        lambda: revert(tree, patches),
        lambda: commit(tree, patches, had, keep_going=True),
    )


def new(
    tree: CheckoutTree, identifier: str, folder: Path, *, diff: str = "", commit: str = ""
) -> DraftedPatch:
    """Draft ``folder/patch.toml`` from a unified ``diff`` against ``tree``, or from a ``commit`` of its repository.

    UsageError if ``folder`` has a patch, if the diff's lines are not in the tree, or if it changes no Python.
    """
    from patchkit.drafting import difference, write
    from patchkit.drafting.draft import draft, same_code
    from patchkit.patchset import load
    from patchkit.plan.build import make_plan
    from patchkit.plan.status import State
    from patchkit.tree.git import GitRepository, GitTree
    from patchkit.tree.tree import OverlayTree

    file = folder / "patch.toml"
    if file.exists():
        raise UsageError(f"{file} is there already: name another folder with -o.")
    sources = difference.of_commit(tree, commit) if commit else difference.of_diff(tree, diff)
    edits, left = draft(sources)
    if not edits:
        raise UsageError(
            f"{identifier}: nothing that an edit can say: {' '.join(left) or 'only layout changes.'}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(write.text(identifier, "", edits, left), encoding="utf-8")
    try:
        patches = load.patches([folder])
    except UsageError as error:
        return DraftedPatch(file, len(edits), (*_todo(edits), *left, str(error)), False)
    with GitRepository(tree.root) if commit else nullcontext() as repository:
        below = GitTree(repository, f"{commit}^") if repository is not None else tree
        before = {name: old.encode() for name, (old, _) in sources.items() if old is not None}
        plan = make_plan(OverlayTree(below, before), (patches.get(identifier),))
    made = {change.file: (change.after or b"").decode() for change in plan.changes}
    wanted = {name: text for name, (_, text) in sources.items() if text is not None}
    exact = not left and all(same_code(made.get(name, ""), text) for name, text in wanted.items())
    stuck = tuple(
        f"{edit.name}: {edit.reason}"
        for s in plan.patches
        for edit in s.edits
        if edit.state is State.CONFLICT
    )
    return DraftedPatch(file, len(edits), (*_todo(edits), *left, *stuck), exact)


def _todo(edits: Sequence[Drafted]) -> tuple[str, ...]:
    return tuple(f"{edit.at}: {edit.kind}: {one}" for edit in edits for one in edit.todo)


def test(path: Path, patches: PatchSet, name: str) -> Trial:
    """Apply a patch to a copy of the tree at ``path``, verify that and take it back; the tree is only read."""
    from patchkit.drafting.trial import Steps, trial
    from patchkit.findings.finding import Confidence
    from patchkit.verify.result import Outcome
    from patchkit.verify.subject import Terms

    def state(tree: CheckoutTree) -> tuple[str, str]:
        said = next(one for one in diff(tree, patches, (name,)).patches if one.patch.id == name)
        return said.state.value, said.reason

    def failures(tree: CheckoutTree) -> tuple[str, ...]:
        results = verify(tree, patches, Terms(Confidence.LIKELY)).results
        failed = (result for result in results if result.outcome is Outcome.FAILED)
        return tuple(finding.message for result in failed for finding in result.findings)

    patches.get(name)
    return trial(
        path,
        Steps(
            state,
            lambda tree: apply(tree, patches, (name,), allow_dirty=True).files,
            failures,
            lambda tree: revert(tree, patches),
        ),
    )


def doctor(tree: CheckoutTree, patches: PatchSet, words: Sequence[str], settings: bytes = b"") -> Diagnosis:
    """Return what a server started on ``tree`` comes to: who keeps the CPU mirror, why, and what would free it.

    ``words`` are its options or its launch command, ``settings`` a ``ServerArgs`` JSON. UsageError for an
    option that the tree's server does not have.
    """
    from patchkit.doctor.diagnosis import diagnose
    from patchkit.doctor.options import Arguments

    launch = Arguments(tree).launch(words, settings)
    return diagnose(tree, launch, status(tree, patches))


def audit_rules() -> dict[str, Rule]:
    """Return the rules that findings of :func:`audit` are about, by their ids."""
    from patchkit.audit.rules import RULES

    return RULES


def _require_whole(tree: CheckoutTree) -> None:
    """Raise TreeError if a write to ``tree`` is pending or a conflict of an earlier one is not finished."""
    from patchkit.transaction.unfinished import require_finished
    from patchkit.transaction.write import require_settled

    require_settled(tree)
    require_finished(tree)


def _plan(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str],
    *,
    only: bool,
    runtime: str = "",
    closely: bool = False,
    certain: bool = False,
    contents: Contents | None = None,
) -> Plan:
    """Plan what apply does in ``tree``, some of whose files may have other ``contents``."""
    from patchkit.plan import vendor
    from patchkit.plan.build import make_plan
    from patchkit.tree.tree import OverlayTree

    _require_whole(tree)
    there = OverlayTree(tree, contents) if contents else tree
    chosen = patches.select(ids, only=only)
    if not _vendored(tree, patches, runtime):
        return make_plan(there, chosen, closely=closely, certain=certain)
    plan = make_plan(vendor.laid_over(there), vendor.pointed(chosen), closely=closely, certain=certain)
    return vendor.with_runtime(there, plan)


def _vendored(tree: CheckoutTree, patches: PatchSet, runtime: str) -> bool:
    """Tell whether patched code takes the runtime from the tree; ConflictError if some of it does otherwise."""
    from patchkit.plan import vendor

    if not runtime:
        return vendor.is_vendored(tree)
    vendored = runtime == "vendored"
    files = sorted({file for patch in patches for edit in patch.edits for file in edit.files})
    vendor.require_one_runtime(tree, files, vendored=vendored)
    return vendored
