"""Compute each patch's state on a tree, including conflicts that a person has to finish."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError
from patchkit.plan.comments import SIGNS, commenting_patches
from patchkit.plan.fitting import with_lacking, with_left_out
from patchkit.plan.markers import without_markers
from patchkit.plan.planner import Planner
from patchkit.plan.status import State
from patchkit.transaction.conflicts import before_markers, conflicts_in, with_conflicts, with_unrecorded
from patchkit.transaction.current import current_or_none, ports_of
from patchkit.transaction.edited import difference, judged
from patchkit.transaction.resolve import unrecorded_edits
from patchkit.transaction.write import read_consistently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import EditStatus, PatchStatus, TreeStatus
    from patchkit.tree.tree import CheckoutTree


def status(tree: CheckoutTree, patches: PatchSet) -> tuple[PatchStatus, ...]:
    """Return each patch's status on ``tree``. Raise TreeError if a write is pending or a file is not valid Python."""
    return tree_status(tree, patches).patches


def tree_status(tree: CheckoutTree, patches: PatchSet) -> TreeStatus:
    """Return each patch's status on ``tree``, and the ids of unknown patches that its comments name.

    Raise TreeError if a write is pending or a file is not valid Python.
    """

    def status_of(read: CheckoutTree) -> TreeStatus:
        before = before_markers(read)
        tree_statuses = Planner(read, patches).tree_status(before)
        blocks = conflicts_in(read) if before else {}
        statuses = with_conflicts(judged(read, tree_statuses.patches), blocks)
        unrecorded = unrecorded_edits(read)
        edits = [(block.patch, block.edit) for inside in blocks.values() for block in inside]
        edits += [(patch, edit) for patch, edit, _ in unrecorded]
        statuses = with_left_out(with_unrecorded(statuses, unrecorded))
        statuses = _with_differences(read, statuses, Planner(read, patches))
        statuses = with_lacking(tuple(map(_removable, statuses)))
        record = current_or_none(read)
        not_loaded = record.patches.keys() - record.ported - {*patches.ids, *patches.former}
        return replace(
            tree_statuses,
            patches=statuses,
            unknown=tuple(sorted(not_loaded.union(tree_statuses.unknown))),
            unfinished=tuple(edits),
            ports=ports_of(read, record),
        )

    return read_consistently(tree, status_of)


def _removable(status: PatchStatus) -> PatchStatus:
    """Return a status with the plan for the patch's removal as the reason, if upstream has it."""
    plan = status.patch.remove_when
    if not plan or status.state is not State.UPSTREAM:
        return status
    return replace(status, reason=f"upstream has it: remove the patch (its plan: {plan})")


def _with_differences(
    tree: CheckoutTree, statuses: Sequence[PatchStatus], planner: Planner
) -> tuple[PatchStatus, ...]:
    """Return the statuses with the difference of each edit that is missing in a file with its patch's comment.

    There is none if the contents that patches wrote are not known.
    """
    commenting = {file: commenting_patches(tree.read(file) or b"") for file in tree.containing(*SIGNS)}

    def is_missing(status: PatchStatus, edit: EditStatus) -> bool:
        is_made = edit.state not in {State.CONFLICT, State.PENDING}
        return not is_made and status.patch.id in commenting.get(edit.file, ())

    missing = {edit.file for status in statuses for edit in status.edits if is_missing(status, edit)}
    if not missing:
        return tuple(statuses)
    from patchkit.transaction.candidates import Candidates

    try:
        candidates = Candidates(tree, planner)
        original, written = candidates.originals, candidates.applied
    except PatchkitError:
        return tuple(statuses)
    # Conflict markers are no code of a patch that a person could have removed.
    differences = {
        file: difference(
            original.get(file),
            *(without_markers(text or b"") for text in (written.get(file), tree.read(file))),
        )
        for file in missing
    }
    return tuple(
        replace(
            status,
            edits=tuple(
                replace(edit, difference=differences[edit.file]) if is_missing(status, edit) else edit
                for edit in status.edits
            ),
        )
        for status in statuses
    )
