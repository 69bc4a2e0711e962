"""A tree depends on the set of its patches: one that comes later stands as if it had come with the others.

That holds while nobody else has touched the files. Where somebody has, a later patch is made in what stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.plan.status import FileChange, State
from patchkit.transaction.origin import Origins
from patchkit.transaction.swap import digest_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.plan.at_hand import PatchesAtHand
    from patchkit.plan.status import Plan
    from patchkit.tree.tree import CheckoutTree

_MADE = frozenset({State.PENDING, State.PARTIAL})


def at_once(tree: CheckoutTree, plan: Plan, at_hand: PatchesAtHand) -> Plan:
    """Return a plan whose files are what the tree's patches and the plan's make of the originals together.

    It is the plan itself where a person has edited one of the files or an edit, where a patch conflicts, or
    where the patches at hand no longer make what stands. So it is where what stood before them is not known, or the
    ledger cannot be read: to refuse that is for who writes.
    """
    try:
        return _at_once(tree, plan, at_hand)
    except (ConflictError, TreeError, UsageError):
        return plan


def _at_once(tree: CheckoutTree, plan: Plan, at_hand: PatchesAtHand) -> Plan:
    origins = Origins(tree, at_hand)
    conflicts = any(status.state is State.CONFLICT for status in plan.patches)
    if plan.by_hand or conflicts or not (origins.signed or origins.uncommitted):
        return plan
    origin = next(iter(origins))
    record = origin.record
    if not origin.sure or len(record.layers) != 1 or record.by_hand:
        return plan
    had, made = tuple(record.patches), {status.patch.id for status in plan.made}
    ids = tuple(s.patch.id for s in plan.patches if s.patch.id in made or s.patch.id not in had)
    stands = {file: tree.read(file) for file in record.files}
    edited = any(digest_or_none(stands[file]) != known.applied for file, known in record.files.items())
    if not ids or edited:
        return plan
    originals: dict[str, bytes | None] = {c.file: c.before for c in plan.changes if c.file not in stands}
    originals |= origin.originals
    together = at_hand.plan(originals, (*had, *ids))
    known = {status.patch.id: status for status in together.patches}
    fresh = {name for name in ids if name in known and known[name].state in _MADE and name not in made}
    after = _after(originals, together)
    noted = {(file, name) for file, known in record.files.items() for name in known.patches}
    noted |= {(change.file, name) for change in plan.changes for name in change.patches}
    makers = {(change.file, name) for change in together.changes for name in change.patches}
    if not fresh and makers <= noted and after == _after(originals | stands, plan):
        return plan
    if any(status.state is State.CONFLICT for status in together.patches) or stands != {
        file: text for file, text in _after(originals, at_hand.plan(originals, had)).items() if file in stands
    }:
        return plan
    patches = tuple(known[s.patch.id] if s.patch.id in fresh else s for s in plan.patches)
    return replace(plan, patches=patches, changes=_changes(originals | stands, together, after, {*ids}))


def _after(contents: Mapping[str, bytes | None], plan: Plan) -> dict[str, bytes | None]:
    return {**contents, **{change.file: change.after for change in plan.changes}}


def _changes(
    stands: Mapping[str, bytes | None], together: Plan, after: Mapping[str, bytes | None], ids: set[str]
) -> tuple[FileChange, ...]:
    """Return what makes of the files what they are to be, and those of which only who made them is to be noted."""
    makers = {change.file: change.patches for change in together.changes}
    files = {file: stands.get(file) for file in after}
    return tuple(
        FileChange(file, before, after[file], makers.get(file, ()))
        for file, before in files.items()
        if before != after[file] or ids & set(makers.get(file, ()))
    )
