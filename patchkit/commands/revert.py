"""Patches are taken back from the code that has them, with what stood there before as git or the ledger has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError, UsageError
from patchkit.plan.planner import Planner
from patchkit.transaction import revert as reverting
from patchkit.transaction.revert import Reverted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


class KeptGoing(NamedTuple):
    """What was taken back, and why each patch that is left was not."""

    reverted: Reverted
    left: Mapping[str, str]


def revert(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> Reverted:
    """Take back ``ids`` (none: all that the code has); edits that a person made since stay.

    A group stands for those of its patches that the code has from patchkit.
    ConflictError, and nothing written, if what stood before is not known, or if edits cannot be told apart.
    """
    planner = Planner(tree, patches)
    meant = frozenset(_meant(tree, patches, planner, ids))
    return reverting.revert(tree, meant if ids else None, planner)


def revert_what_can_be(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> KeptGoing:
    """Take back as ``revert`` does those of the patches that can be, each whole, and say why each other one is left.

    ConflictError if the tree has none of them, so that there is none to take back alone.
    """
    planner = Planner(tree, patches)
    try:
        return KeptGoing(revert(tree, patches, ids), {})
    except ConflictError as error:
        there, refusal = reverting.in_code(tree, planner), str(error)
        if not there:
            raise
    done: list[Reverted] = []
    gone: set[str] = set()
    meant = _meant(tree, patches, planner, ids)
    ahead = [name for name in reversed(there) if not ids or name in meant]
    while True:
        left: dict[str, str] = {}
        for name in ahead:
            if name in gone:
                continue
            try:
                done.append(revert(tree, patches, (name,)))
            except (ConflictError, UsageError) as error:
                left[name] = refusal if name in refusal.split() else str(error)
            else:
                gone.update(done[-1].patches)
        if not left or len(left) == len(ahead):
            break
        ahead = list(left)
    files = dict.fromkeys(file for each in done for file in each.files)
    return KeptGoing(Reverted(tuple(name for name in there if name in gone), tuple(files)), left)


def _meant(tree: CheckoutTree, patches: PatchSet, planner: Planner, names: Sequence[str]) -> tuple[str, ...]:
    groups = [name for name in names if name not in patches.ids and name in patches]
    if not groups:
        return tuple(names)
    there = reverting.in_code(tree, planner)
    inside = {patch.id for name in groups for patch in patches.group(name)}.intersection(there)
    return (*(name for name in names if name not in groups), *inside)
