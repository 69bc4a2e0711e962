"""Revert patches, restoring the code before them from git or the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError, UsageError
from patchkit.plan.planner import Planner
from patchkit.transaction import revert as reverting
from patchkit.transaction.revert import RevertResult
from patchkit.transaction.revert_plan import RevertBlockedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


class PartialRevert(NamedTuple):
    """What was reverted, and the reason for each patch that was not."""

    reverted: RevertResult
    not_reverted: Mapping[str, str]


def revert(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> RevertResult:
    """Revert ``ids`` (default: all patches in the code), keeping changes that a person made since.

    A group denotes those of its patches that patchkit applied to the code. Raise ConflictError, with nothing written,
    if the code before a patch is unknown or a person's changes cannot be distinguished from the patch's.
    """
    planner = Planner(tree, patches)
    selected = frozenset(_selected(tree, patches, planner, ids))
    try:
        return reverting.revert(tree, selected if ids else None, planner)
    except RevertBlockedError as error:
        if not error.together:
            raise
        raise reverting.advised(tree, error, selected, planner) from None


def revert_what_can_be(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> PartialRevert:
    """Revert those of the patches that can be reverted, each completely, and return the reason for each other one.

    Raise ConflictError if the tree has none of them.
    """
    planner = Planner(tree, patches)
    selected = _selected(tree, patches, planner, ids)
    try:
        return PartialRevert(reverting.revert(tree, frozenset(selected) if ids else None, planner), {})
    except ConflictError as error:
        conflict = error
        order = (reverting.in_code if ids else reverting.reverted_without_names)(tree, planner)
        if not order:
            raise
    blocked = () if not isinstance(conflict, RevertBlockedError) or conflict.together else conflict.patches
    results: list[RevertResult] = []
    reverted: set[str] = set()
    remaining = [name for name in reversed(order) if not ids or name in selected]
    while True:
        reasons: dict[str, str] = {}
        for name in remaining:
            if name in reverted:
                continue
            try:
                results.append(reverting.revert(tree, frozenset([name]), planner))
            except (ConflictError, UsageError) as error:
                reasons[name] = str(conflict if name in blocked else error)
            else:
                reverted.update(results[-1].patches)
        if not reasons or len(reasons) == len(remaining):
            break
        remaining = list(reasons)
    files = dict.fromkeys(file for result in results for file in result.files)
    return PartialRevert(
        RevertResult(tuple(name for name in order if name in reverted), tuple(files)), reasons
    )


def remaining_ports(tree: CheckoutTree, patches: PatchSet) -> dict[str, bool]:
    """Return the ports whose code is in the tree, each with whether it is committed.

    ``revert`` reverts a committed one only by name, and leaves another one if it conflicts.
    """
    return reverting.ports_in_tree(tree, Planner(tree, patches))


def _selected(
    tree: CheckoutTree, patches: PatchSet, planner: Planner, names: Sequence[str]
) -> tuple[str, ...]:
    groups = [name for name in names if name not in patches.ids and name in patches]
    if not groups:
        return tuple(names)
    in_code = reverting.in_code(tree, planner)
    members = {patch.id for name in groups for patch in patches.group(name)}.intersection(in_code)
    return (*(name for name in names if name not in groups), *members)
