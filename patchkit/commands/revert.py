"""Revert patches, restoring the code before them from git or the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError, UsageError
from patchkit.plan.planner import Planner
from patchkit.transaction import revert as reverting
from patchkit.transaction.revert import RevertResult
from patchkit.transaction.unwind import StuckError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


class PartialRevert(NamedTuple):
    """What was reverted, and the reason for each patch that was left."""

    reverted: RevertResult
    left: Mapping[str, str]


def revert(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> RevertResult:
    """Revert ``ids`` (default: all patches in the code), keeping changes that a person made since.

    A group denotes those of its patches that patchkit applied to the code. Raise ConflictError, with nothing written,
    if the code before a patch is unknown or a person's changes cannot be told from the patch's.
    """
    planner = Planner(tree, patches)
    meant = frozenset(_selected(tree, patches, planner, ids))
    return reverting.revert(tree, meant if ids else None, planner)


def revert_what_can_be(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> PartialRevert:
    """Revert those of the patches that can be reverted, each completely, and return the reason for each other one.

    Raise ConflictError if the tree has none of them.
    """
    planner = Planner(tree, patches)
    try:
        return PartialRevert(revert(tree, patches, ids), {})
    except ConflictError as error:
        there, refusal = reverting.in_code(tree, planner), error
        if not there:
            raise
    stuck = refusal.patches if isinstance(refusal, StuckError) else ()
    done: list[RevertResult] = []
    gone: set[str] = set()
    meant = _selected(tree, patches, planner, ids)
    ahead = [name for name in reversed(there) if not ids or name in meant]
    while True:
        left: dict[str, str] = {}
        for name in ahead:
            if name in gone:
                continue
            try:
                done.append(revert(tree, patches, (name,)))
            except (ConflictError, UsageError) as error:
                left[name] = str(refusal if name in stuck else error)
            else:
                gone.update(done[-1].patches)
        if not left or len(left) == len(ahead):
            break
        ahead = list(left)
    files = dict.fromkeys(file for each in done for file in each.files)
    return PartialRevert(RevertResult(tuple(name for name in there if name in gone), tuple(files)), left)


def committed_ports(tree: CheckoutTree, patches: PatchSet) -> tuple[str, ...]:
    """Return the ports in git's history whose code is in the tree; ``revert`` reverts them only by name."""
    return reverting.ports_left(tree, Planner(tree, patches))


def _selected(
    tree: CheckoutTree, patches: PatchSet, planner: Planner, names: Sequence[str]
) -> tuple[str, ...]:
    groups = [name for name in names if name not in patches.ids and name in patches]
    if not groups:
        return tuple(names)
    there = reverting.in_code(tree, planner)
    inside = {patch.id for name in groups for patch in patches.group(name)}.intersection(there)
    return (*(name for name in names if name not in groups), *inside)
