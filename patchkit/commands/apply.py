"""Patches are applied to a tree with what they need, or nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.plan.conflict import conflicts
from patchkit.plan.markers import with_markers
from patchkit.plan.planner import Planner
from patchkit.plan.refusal import PlanConflictError, describe_conflicts
from patchkit.plan.resolutions import recalled, with_recalled
from patchkit.plan.status import State
from patchkit.transaction.apply import Transaction
from patchkit.transaction.origins import origin
from patchkit.transaction.remembered import Remembered
from patchkit.transaction.whole import require_whole
from patchkit.tree.backends import heirs_of
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import Plan
    from patchkit.transaction.apply import Applied
    from patchkit.tree.backends import Heir
    from patchkit.tree.tree import CheckoutTree


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
    require_whole(tree)
    planner = Planner(tree, patches, runtime)
    planned = planner.plan(ids, only=only, closely=resolved or markers, certain=markers)
    if resolved:
        planned = _resolved(tree, planner, planned, ids, only=only, certain=markers)
    left = describe_conflicts(planned.patches)
    if left and not (keep_going or markers):
        offer = "" if resolved else _offer(tree, planner.plan(ids, only=only, closely=True))
        raise PlanConflictError(
            f"{left}, so nothing was written: --keep-going applies the others, --markers leaves you the conflicts "
            f"to finish{offer}.",
            planned,
        )
    planned = with_markers(planned) if markers else planner.together(planned, origin(tree, planner))
    transaction = Transaction(tree, patches.digest, allow_dirty=allow_dirty)
    heirs = _new_heirs(planned)
    return replace(transaction.check(planned) if dry_run else transaction.commit(planned), heirs=heirs)


def _resolved(
    tree: CheckoutTree, planner: Planner, planned: Plan, ids: Sequence[str], *, only: bool, certain: bool
) -> Plan:
    """Return a plan in which the conflicts of ``planned`` that a person resolved elsewhere are so resolved.

    A file in which that does not bring the edits into place is left out; unless what is ``certain`` of a patch in
    conflict is written, so is one with an edit of such a patch.
    """
    found = recalled(tree, conflicts(planned.tree, planned.patches), Remembered(tree).get)
    while found:
        contents = {file: known.text for file, known in found.items()}
        made = planner.plan(ids, only=only, closely=True, certain=certain, contents=contents)
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
    found = recalled(tree, conflicts(planned.tree, planned.patches), Remembered(tree).get)
    count = sum(len(known.edits) for known in found.values())
    return f"; {count} of them you resolved elsewhere, and --resolved writes the same here" if count else ""


def _new_heirs(plan: Plan) -> tuple[Heir, ...]:
    """Return the backends that will inherit an opt-out, which they do not now, and read the mirror."""
    after = {change.file: change.after for change in plan.changes}
    if not after:
        return ()
    known = {(heir.cls.module.file, heir.cls.name) for heir in heirs_of(plan.tree)}
    heirs = heirs_of(OverlayTree(plan.tree, after))
    return tuple(heir for heir in heirs if (heir.cls.module.file, heir.cls.name) not in known)
