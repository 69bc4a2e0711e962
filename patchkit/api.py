"""What each command does, as a function: a script calls these, gets values, and catches PatchkitError.

Nothing here prints, asks or exits. Trees come from ``tree.tree.open_tree``, patches from ``patchset.load.patches``.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, PatchkitError, TreeError, UsageError

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
    from patchkit.transaction.keep_going import KeptGoing
    from patchkit.transaction.recover import Recovery
    from patchkit.transaction.revert import Inferred, Reverted
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
    accepted: bool = False
    """Whether it is in place on the person's word alone."""


@dataclass(frozen=True)
class SharedResolutions:
    """The files written, and why each resolution that is in none of them was left out."""

    files: tuple[Path, ...]
    left: tuple[str, ...]


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
    """Return each patch's status on ``tree``, and which patches it or its ledger names that are not at hand.

    TreeError if a write to it is pending or a file is no Python.
    """
    from patchkit.plan import cache
    from patchkit.transaction.resolve import by_hand
    from patchkit.transaction.revert import recorded
    from patchkit.transaction.unfinished import as_left, before_markers, unfinished
    from patchkit.transaction.write import require_settled
    from patchkit.tree.tree import OverlayTree

    require_settled(tree)
    before = before_markers(tree)
    found = cache.standing(OverlayTree(tree, before) if before else tree, patches)
    hands: frozenset[tuple[str, str]] = frozenset()
    unknown = list(found.unknown)
    with suppress(TreeError):  # What is wrong with a ledger is for verify to say.
        hands = by_hand(tree)
        unknown += [name for name in recorded(tree) if name not in {*patches.ids, *found.unknown}]
    left = as_left(found.patches, hands, unfinished(tree) if before else {})
    return replace(found, patches=left, unknown=tuple(unknown))


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
    from patchkit.transaction.remembered import Remembered

    found = recalled(tree, conflicts(planned), Remembered(tree).get)
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
    from patchkit.transaction.remembered import Remembered

    found = recalled(tree, conflicts(planned), Remembered(tree).get)
    count = sum(len(known.edits) for known in found.values())
    return f"; {count} of them you resolved elsewhere, and --resolved writes the same here" if count else ""


def resolve(
    tree: CheckoutTree, patches: PatchSet, patch: str, edit: str, *, accept: bool = False
) -> Resolved:
    """Record that a person made an edit, and remember what they wrote where apply had left its conflict.

    UsageError for an unknown edit; ConflictError, and nothing recorded, while its markers stand, if the code
    does not have what the edit is for, if it lost something of the tree's own, or if patchkit made it. With ``accept``
    the person's word counts for the code, and a comment there says so.
    """
    from patchkit.plan.conflict import at_site, short_of
    from patchkit.plan.resolutions import dropped, resolution
    from patchkit.plan.status import accepted_note
    from patchkit.transaction import resolve as resolving
    from patchkit.transaction.remembered import Remembered
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
    status = _status_of(tree, patches, before, patch, edit)
    missing = _missing(patch, status)
    if missing and not accept:
        short = short_of(OverlayTree(tree, before), named, status)
        missing = f"{missing.partition(': expected')[0]}: {short}" if short else missing
        raise ConflictError(
            f"{missing}; patchkit diff shows what it is for, and resolve --accept takes your word for it."
        )
    if tree.read(status.file) is None:
        raise ConflictError(f"{status.file} is not there, so {patch} {edit} cannot be in place.")

    def holds(file: str, text: bytes) -> bool:
        try:
            return not _missing(patch, _status_of(tree, patches, {**before, file: text}, patch, edit))
        except PatchkitError:
            return False

    check = None if missing else holds
    made = resolving.written_for(tree, named, status, check)
    spec = next(each for each in named.edits if each.name == edit)
    finds, now = (
        [find for find, _ in spec.kind.ways],
        before.get(status.file) or tree.read(status.file) or b"",
    )
    lost = dropped(made.found, finds, made.text, (made.original, now)) if made and not accept else []
    if made is not None and lost:
        raise ConflictError(
            f"{status.file}:{made.line}: {patch}: {edit}: {', '.join(lost)} was found there and is not in what you "
            "wrote: put it back, or say with resolve --accept that it is to go."
        )
    word = None
    if missing:
        line = at_site(OverlayTree(tree, before), named, status).line
        word = resolving.Word(accepted_note(named, edit), line)
    found = resolving.record_by_hand(tree, named, status, check, word)
    if found is None or not found.is_whole:
        return Resolved(recorded=True, remembered=False, accepted=bool(missing))
    conflict = at_site(OverlayTree(tree, {status.file: found.original}), named, status)
    kept = resolution(conflict, found.original, found.text, word.note if word else "")
    remembered = kept is not None and Remembered(tree).put(*kept)
    return Resolved(recorded=True, remembered=remembered, accepted=bool(missing))


def give_up(tree: CheckoutTree, patches: PatchSet, patch: str, edit: str) -> str:
    """Put back what apply found where it left the conflict of an edit, and return the file; the edit stays out.

    UsageError for an unknown edit; ConflictError, and nothing written, where no conflict of it stands.
    """
    from patchkit.transaction import resolve as resolving

    _require_edit(patches.get(patch), edit)
    return resolving.give_up(tree, patch, edit)


def export_resolutions(tree: CheckoutTree, patches: PatchSet, folder: Path) -> SharedResolutions:
    """Write what a person made of conflicts in the repository of ``tree`` to ``folder``, for ``--patches``.

    UsageError, and nothing written, if a patch has a folder there already, or if there is nothing to write.
    """
    from patchkit.drafting.extension import extensions
    from patchkit.transaction.remembered import Remembered

    texts, left = extensions(Remembered(tree), patches)
    files = {folder / name / "patch.toml": text for name, text in sorted(texts.items())}
    taken = next((file for file in files if file.exists()), None)
    if taken is not None:
        raise UsageError(f"{taken} is there already: name another folder.")
    if not files:
        why = f" ({'; '.join(left)})" if left else ""
        raise UsageError(f"no resolution of {tree.root} can be written as a patch folder{why}.")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return SharedResolutions(tuple(files), left)


def _require_edit(patch: Patch, name: str) -> None:
    import difflib

    names = [edit.name for edit in patch.edits]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"{patch.id} has no edit {name!r}: {hint}patchkit show {patch.id} lists them.")


def _status_of(
    tree: CheckoutTree, patches: PatchSet, contents: Contents, patch: str, edit: str
) -> EditStatus:
    """Return how an edit stands in files with these contents; ConflictError if it is not for the tree."""
    from patchkit.plan import vendor
    from patchkit.plan.build import inspect
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
    return next((each for each in found if _missing(patch, each)), found[0])


def _missing(patch: str, edit: EditStatus) -> str:
    """Say why an edit is not in place; nothing where it is."""
    from patchkit.plan.status import State

    if edit.state in {State.APPLIED, State.UPSTREAM}:
        return ""
    why = edit.reason or "patchkit apply can make it"
    return f"{edit.file}: {edit.site or 'module'}: {patch}: {edit.name} is not in place: {why}"


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


def revert_what_can_be(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> KeptGoing:
    """Take back as ``revert`` does those of the patches that can be, each whole, and say why each other one is left."""
    from patchkit.transaction.keep_going import KeptGoing, revert_each
    from patchkit.transaction.revert import recorded

    try:
        return KeptGoing(revert(tree, patches, ids), {})
    except ConflictError as error:
        there, refusal = recorded(tree), str(error)
        if not there:
            raise
    named = [name for name in there if not ids or name in ids]
    return revert_each(named, lambda name: revert(tree, patches, (name,)), refusal)


def revert(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> Reverted:
    """Take back ``ids`` (none: all that the ledger records); edits that a person made since stay.

    Where no ledger is true of the tree, what git has from before the patches takes its place. ConflictError,
    and nothing written, if neither is there, or if edits cannot be told apart.
    """
    from patchkit.plan.at_hand import PatchesAtHand
    from patchkit.transaction import revert as reverting
    from patchkit.transaction.write import require_settled

    require_settled(tree)
    recorded = reverting.recorded(tree)
    inferred = None if recorded else _inferred(tree, patches)
    if inferred is not None:
        recorded = tuple(inferred.record.patches)
    unrecorded = [name for name in ids or patches.ids if name not in recorded]
    if unrecorded and (ids or not recorded):
        _refuse_unrecorded(tree, patches, unrecorded, named=bool(ids))
    named = frozenset(ids).intersection(recorded)
    if ids and not named:
        return reverting.Reverted((), ())
    return reverting.revert(tree, named or None, PatchesAtHand(tree, patches), inferred)


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
    from patchkit.transaction.revert import recorded_files
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
    return backports(statuses, recorded_files(tree), by_hand(tree), told)


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


def _inferred(tree: CheckoutTree, patches: PatchSet) -> Inferred | None:
    """Work out what a ledger would say, from git's history; None if the tree has nothing that patchkit wrote.

    ConflictError if git does not have what was there before, or the patches at hand do not make what is there.
    """
    from patchkit.plan import vendor
    from patchkit.plan.at_hand import PatchesAtHand
    from patchkit.plan.build import inspect
    from patchkit.plan.status import State
    from patchkit.transaction.apply import with_plan
    from patchkit.transaction.history import before_patches, signed
    from patchkit.transaction.ledger import Record
    from patchkit.transaction.revert import Inferred
    from patchkit.transaction.swap import digest_of

    files = signed(tree)
    if not files:
        return None
    statuses = inspect(tree, tuple(patches))
    ids = [s.patch.id for s in statuses if any(edit.state is State.APPLIED for edit in s.edits)]
    originals = before_patches(tree, files)
    folders = []
    if vendor.is_vendored(tree):
        originals |= dict.fromkeys(tree.files(vendor.FOLDER, ""))
        folders.append(vendor.FOLDER)
    planned = PatchesAtHand(tree, patches).plan(originals, ids)
    unexplained = sorted(set(files).difference(change.file for change in planned.changes))
    if unexplained:
        raise ConflictError(
            f"{unexplained[0]}: the patches at hand do not make what is there: name the folder that they came "
            "from with --patches DIR, or undo them with git revert."
        )
    record = with_plan(Record(), planned, patches.digest, folders)
    texts = (text for change in planned.changes for text in (change.before, change.after))
    return Inferred(record, {digest_of(text): text for text in texts if text is not None})


def _refuse_unrecorded(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str], *, named: bool) -> None:
    """Raise ConflictError if the tree has a patch although no ledger records it."""
    from patchkit.plan.build import inspect
    from patchkit.plan.status import State
    from patchkit.transaction.revert import recorded_nameless

    statuses = inspect(tree, tuple(map(patches.get, ids)))
    ours = [s.patch.id for s in statuses if any(edit.state is State.APPLIED for edit in s.edits)]
    theirs = [s.patch.id for s in statuses if s.state is State.UPSTREAM]
    if ours:
        raise ConflictError(
            f"{', '.join(ours)}: in the code of {tree.package}, but its ledger (.patchkit) does not say what "
            "was there before: undo it with git revert or git checkout."
        )
    lost = recorded_nameless(tree) if theirs else {}
    for name in theirs:
        if name in lost:
            file, comment = lost[name]
            raise ConflictError(
                f"{file}: {name}: its code is there and no comment of a patch is, so nothing tells it from upstream's "
                f"own: put `{comment}` back above it and revert again, or undo it with git."
            )
    if theirs and named:
        raise ConflictError(
            f"{', '.join(theirs)}: upstream's own in {tree.package}: git revert takes it out."
        )
