"""Apply patches to a tree, each with all patches that it needs or not at all."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError
from patchkit.plan import vendor
from patchkit.plan.conflict import conflicts
from patchkit.plan.fitting import fitting_plan
from patchkit.plan.markers import with_markers
from patchkit.plan.planner import Planner
from patchkit.plan.record import attributed
from patchkit.plan.refusal import require_fitting
from patchkit.plan.resolutions import recall_resolutions, with_recalled
from patchkit.plan.status import State
from patchkit.transaction.apply import Transaction
from patchkit.transaction.candidates import patch_base
from patchkit.transaction.conflicts import read_without_conflicts, with_unrecorded
from patchkit.transaction.current import lined_record
from patchkit.transaction.edited import without_repetition
from patchkit.transaction.renewal import renewal
from patchkit.transaction.resolution_store import ResolutionStore
from patchkit.transaction.resolve import unrecorded_edits
from patchkit.tree.backends import inheriting_backends
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, Plan
    from patchkit.transaction.apply import ApplyResult
    from patchkit.transaction.renewal import Renewal
    from patchkit.tree.backends import InheritingBackend
    from patchkit.tree.tree import CheckoutTree, ReadTree


def apply(
    tree: CheckoutTree,
    patches: PatchSet,
    ids: Sequence[str] = (),
    *,
    keep_going: bool = False,
    markers: bool = False,
    resolved: bool = False,
    allow_dirty: bool = False,
    dry_run: bool = False,
    runtime: str = "",
) -> ApplyResult:
    """Apply ``ids`` (default: every default patch that fits) with the patches that they require.

    A patch that conflicts is left out with all patches that need it. If one of ``ids``, or a patch that they require,
    is among these, PlanConflictError is raised and nothing is written; with ``keep_going`` the others are applied
    anyway. With ``markers`` nothing is left out: edits with unambiguous sites are made, and conflict markers are
    written for the others. With ``resolved``, recorded resolutions of the same code are used for conflicts. With
    ``dry_run`` everything is checked and nothing is written.

    ``runtime`` says where patched code imports the runtime from: ``import`` for the installed patchkit, ``vendored``
    for a copy in the tree. The default is the fork's configuration, then what the tree uses already, then ``import``.

    Raise TreeError if the tree cannot be written.
    """
    transaction = Transaction(tree, allow_dirty=allow_dirty)
    preparing = partial(
        prepare,
        patches=patches,
        ids=ids,
        keep_going=keep_going,
        markers=markers,
        resolved=resolved,
        runtime=runtime,
    )

    def check(read: ReadTree) -> ApplyResult:
        prepared = preparing(read)
        return prepared.completed(transaction.check(prepared.plan))

    if dry_run:
        return read_without_conflicts(tree, check)
    prepared = read_without_conflicts(tree, preparing)
    older = prepared.older
    written = transaction.commit(
        prepared.plan,
        (prepared.step,),
        prepared.read,
        None if older is None else older.record,
        () if older is None else older.kept,
    )
    return prepared.completed(written)


def prepare(
    read: ReadTree,
    patches: PatchSet,
    ids: Sequence[str],
    *,
    keep_going: bool = False,
    markers: bool = False,
    resolved: bool = False,
    closest: bool = False,
    committing: bool = False,
    runtime: str = "",
) -> PreparedApply:
    """Return what applying ``ids`` to a tree does, for ``apply``, ``commit`` and ``diff``.

    ``closest`` gives conflicts in the closest shape of a tree that has none. With ``committing`` an error names what
    to type before the patches can be committed. Raise PlanConflictError, unless with ``keep_going``, if a patch of
    ``ids``, or one that they require, does not fit.
    """
    planner, names, older = _renewing(read, patches, ids, runtime)
    make_plan = partial(
        planner.plan, names, try_closest_shape=closest or resolved or markers, allow_partial=markers
    )

    def plan_without(left_out: frozenset[str] = frozenset()) -> Plan:
        def make(more: frozenset[str]) -> Plan:
            planning = partial(make_plan, without=left_out | more)
            return _resolved(read, planning, allow_partial=markers) if resolved else planning()

        # An older form is made anew on the code from before it.
        return make(frozenset()) if older else _without_repetition(read, make, writes_markers=markers)

    plan = with_markers(plan_without()) if markers else fitting_plan(plan_without)
    unrecorded = unrecorded_edits(read)
    statuses = attributed(plan.patches, lined_record(read))
    plan = replace(plan, patches=with_unrecorded(statuses, unrecorded))
    resolutions = (
        _recorded_resolutions(read, partial(make_plan, try_closest_shape=True)) if plan.left_out else ()
    )
    if not keep_going:
        remedy = _describe_recording(plan.patches, unrecorded)
        if committing:
            remedy = remedy or (describe_committing(resolutions, plan.patches) if resolutions else "")
        else:
            option = "--markers with --resolved" if resolved else "--resolved"
            offer = f"; {describe_resolutions(resolutions, plan.patches, option)}" if resolutions else ""
            offer = offer or (_describe_accepting(plan.patches) if resolved else "")
            unfit = [status for status in plan.patches if status.state is State.CONFLICT]
            if not all(any(edit.difference for edit in status.edits) for status in unfit):
                offer = f"--markers writes conflict markers to finish by hand{offer}"
            remedy = remedy or offer.removeprefix("; ")
        require_fitting(plan, patches.requested(ids), remedy)
    step = plan
    if older is not None:
        plan = older.changing(plan)
    elif not markers:
        step = plan = planner.combined_plan(plan, patch_base(read, planner))
    edits = tuple((patch, edit) for patch, edit, _ in unrecorded)
    return PreparedApply(read, plan, step, older, () if resolved else resolutions, edits)


def _without_repetition(
    read: ReadTree, make: Callable[[frozenset[str]], Plan], *, writes_markers: bool
) -> Plan:
    """Return a plan in which an edit that a person changed so that it could be made again is a conflict.

    Raise ConflictError with ``writes_markers``: there is nothing to put between them.
    """
    plan = make(frozenset())
    patches = without_repetition(read, plan.patches)
    again = {
        new.patch.id: new
        for old, new in zip(plan.patches, patches, strict=True)
        if new.state is not old.state
    }
    if not again:
        return replace(plan, patches=patches)
    if writes_markers:
        name, status = next(iter(again.items()))
        raise ConflictError(f"{name}: {status.reason}")
    plan = make(frozenset(again))
    by_id = {status.patch.id: status for status in plan.patches} | again
    return replace(plan, patches=tuple(by_id[patch.patch.id] for patch in patches))


def _renewing(
    read: ReadTree, patches: PatchSet, ids: Sequence[str], runtime: str
) -> tuple[Planner, Sequence[str], Renewal | None]:
    """Return the planner of an apply, the names to plan, and the older forms to take back.

    A patch of which the tree has an older form is made anew on the code from before it.
    """
    runtime = runtime or patches.settings.runtime
    planner = Planner(read, patches, runtime)
    older = renewal(read, patches, planner)
    if older is None:
        return planner, ids, None
    runtime = runtime or ("vendored" if vendor.is_vendored(read) else "")
    wanted = {*(patch.id for patch in patches.select(ids)), *older.patches}
    names = tuple(name for name in patches.ids if name in wanted)
    return Planner(OverlayTree(read, older.contents), patches, runtime), names, older


class PreparedApply(NamedTuple):
    """A plan, the tree that it was computed from, and what the result of applying it has besides.

    ``step`` is the plan as it is recorded, after the ``older`` forms of patches are taken back.
    """

    read: ReadTree
    plan: Plan
    step: Plan
    older: Renewal | None
    resolutions: tuple[tuple[str, str], ...]
    unrecorded: tuple[tuple[str, str], ...]

    def completed(self, applied: ApplyResult) -> ApplyResult:
        """Return the result with what was prepared."""
        return replace(
            applied,
            inheriting=_newly_inheriting(self.plan),
            resolved_elsewhere=self.resolutions,
            unrecorded=self.unrecorded,
        )


def _resolved(tree: CheckoutTree, planning: Callable[..., Plan], *, allow_partial: bool) -> Plan:
    """Return a plan that uses recorded resolutions for its conflicts.

    Resolutions in a file are not used if an edit there still conflicts, or if the patch of such an edit does, unless
    ``allow_partial`` writes edits of conflicting patches.
    """
    plan = planning()
    recalled = recall_resolutions(tree, conflicts(plan.tree, plan.patches), ResolutionStore(tree).get)
    while recalled:
        resolved = planning(contents={file: entry.text for file, entry in recalled.items()})
        conflicting = {
            s.patch.id
            for s in resolved.patches
            if s.state is State.CONFLICT and not (allow_partial and s.edits)
        }
        unresolved = {
            (s.patch.id, e.name) for s in resolved.patches for e in s.edits if e.state is State.CONFLICT
        }
        unusable = {
            file
            for file, entry in recalled.items()
            if any(edit in unresolved or edit[0] in conflicting for edit in entry.edits)
        }
        if not unusable:
            return with_recalled(tree, resolved, recalled)
        recalled = {file: entry for file, entry in recalled.items() if file not in unusable}
    return plan


def _recorded_resolutions(tree: CheckoutTree, planning: Callable[[], Plan]) -> tuple[tuple[str, str], ...]:
    """Return the conflicts of a plan that have a recorded resolution, as patch id and edit name."""
    store = ResolutionStore(tree)
    if next(iter(store), None) is None:
        return ()
    plan = planning()
    recalled = recall_resolutions(tree, conflicts(plan.tree, plan.patches), store.get)
    return tuple(edit for entry in recalled.values() for edit in entry.edits)


def _describe_recording(statuses: Iterable[PatchStatus], unrecorded: Iterable[tuple[str, str, str]]) -> str:
    """Return a clause that names the command for the first unrecorded edit of a conflicting patch, or nothing."""
    conflicting = {status.patch.id for status in statuses if status.state is State.CONFLICT}
    first = next((edit for edit in unrecorded if edit[0] in conflicting), None)
    return f"patchkit resolve {first[0]} {first[1]} records your resolution" if first else ""


def _describe_accepting(statuses: Iterable[PatchStatus]) -> str:
    """Return a clause on the command that records the code at the first conflict, which a person may have written."""
    conflicting = (status for status in statuses if status.state is State.CONFLICT)
    edits = ((s.patch.id, edit.name) for s in conflicting for edit in s.edits if edit.state is State.CONFLICT)
    first = next(edits, None)
    return (
        f"; patchkit resolve --accept {' '.join(first)} records the code there as your own" if first else ""
    )


def describe_committing(edits: Sequence[tuple[str, str]], statuses: Iterable[PatchStatus]) -> str:
    """Return a clause on the commands that commit patches with the recorded resolutions ``edits``."""
    command = f"patchkit apply --resolved {' '.join(dict.fromkeys(patch for patch, _ in edits))}"
    return f"{describe_resolutions(edits, statuses, command)}; commit it with git commit"


def describe_resolutions(
    edits: Sequence[tuple[str, str]], statuses: Iterable[PatchStatus], option: str = "--resolved"
) -> str:
    """Return a clause on the option that uses the recorded resolutions ``edits`` of the conflicts."""
    unfit = (status for status in statuses if status.state is State.CONFLICT)
    # A patch that has no shape of the tree conflicts as a whole.
    total = sum(max(1, sum(edit.state is State.CONFLICT for edit in status.edits)) for status in unfit)
    which = "resolution" if total == len(edits) == 1 else f"resolutions of {len(edits)} of the conflicts"
    return f"{option} uses your earlier {which}"


def _newly_inheriting(plan: Plan) -> tuple[InheritingBackend, ...]:
    """Return the backends that read the mirror and inherit an opt-out only after the plan is applied."""
    after = {change.file: change.after for change in plan.changes}
    inheriting = inheriting_backends(OverlayTree(plan.tree, after)) if after else ()
    if not inheriting:
        return ()
    named = {(backend.file, backend.name) for backend in inheriting_backends(plan.tree)}
    return tuple(backend for backend in inheriting if (backend.file, backend.name) not in named)
