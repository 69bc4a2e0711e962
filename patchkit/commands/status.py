"""Compute each patch's state on a tree, including conflicts that a person has to finish."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.plan.fitting import with_left_out
from patchkit.plan.planner import Planner
from patchkit.transaction.conflicts import before_markers, conflicts_in, with_conflicts, with_unrecorded
from patchkit.transaction.resolve import unrecorded_edits
from patchkit.transaction.write import read_consistently

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, TreeStatus
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
        found = Planner(read, patches).tree_status(before)
        blocks = conflicts_in(read) if before else {}
        statuses = with_conflicts(found.patches, blocks)
        unrecorded = unrecorded_edits(read)
        edits = [(block.patch, block.edit) for inside in blocks.values() for block in inside]
        edits += [(patch, edit) for patch, edit, _ in unrecorded]
        statuses = with_left_out(with_unrecorded(statuses, unrecorded))
        return replace(found, patches=statuses, unfinished=tuple(edits))

    return read_consistently(tree, status_of)
