"""Patches are taken back by what the tree's ledger records, or else by what git has from before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from patchkit.errors import ConflictError, UsageError
from patchkit.plan import vendor
from patchkit.plan.planner import Planner
from patchkit.plan.status import State
from patchkit.transaction import revert as reverting
from patchkit.transaction.apply import with_plan
from patchkit.transaction.history import before_patches, signed
from patchkit.transaction.ledger import Record
from patchkit.transaction.revert import Inferred, Reverted, recorded_nameless
from patchkit.transaction.swap import digest_of
from patchkit.transaction.write import require_settled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree


class KeptGoing(NamedTuple):
    """What was taken back, and why each patch that is left was not."""

    reverted: Reverted
    left: Mapping[str, str]


def revert(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> Reverted:
    """Take back ``ids`` (none: all that the ledger records); edits that a person made since stay.

    Where no ledger is true of the tree, what git has from before the patches takes its place. ConflictError,
    and nothing written, if neither is there, or if edits cannot be told apart.
    """
    require_settled(tree)
    planner = Planner(tree, patches)
    recorded = reverting.recorded(tree)
    inferred = None if recorded else _inferred(tree, patches, planner)
    if inferred is not None:
        recorded = tuple(inferred.record.patches)
    unrecorded = [name for name in ids or patches.ids if name not in recorded]
    if unrecorded and (ids or not recorded):
        _refuse_unrecorded(tree, planner.statuses(tuple(map(patches.get, unrecorded))), named=bool(ids))
    named = frozenset(ids).intersection(recorded)
    if ids and not named:
        return reverting.Reverted((), ())
    return reverting.revert(tree, named or None, planner, inferred)


def revert_what_can_be(tree: CheckoutTree, patches: PatchSet, ids: Sequence[str] = ()) -> KeptGoing:
    """Take back as ``revert`` does those of the patches that can be, each whole, and say why each other one is left.

    ConflictError if the ledger records none, so that they cannot be taken back one by one.
    """
    try:
        return KeptGoing(revert(tree, patches, ids), {})
    except ConflictError as error:
        there, refusal = reverting.recorded(tree), str(error)
        if not there:
            raise
    done: list[Reverted] = []
    gone: set[str] = set()
    ahead = [name for name in reversed(there) if not ids or name in ids]
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


def _inferred(tree: CheckoutTree, patches: PatchSet, planner: Planner) -> Inferred | None:
    """Work out what a ledger would say, from git's history; None if the tree has nothing that patchkit wrote.

    ConflictError if git does not have what was there before, or the patches at hand do not make what is there.
    """
    files = signed(tree)
    if not files:
        return None
    statuses = planner.statuses(tuple(patches))
    ids = [s.patch.id for s in statuses if any(edit.state is State.APPLIED for edit in s.edits)]
    originals = before_patches(tree, files)
    folders = []
    if vendor.is_vendored(tree):
        originals |= dict.fromkeys(tree.files(vendor.FOLDER, ""))
        folders.append(vendor.FOLDER)
    planned = planner.exactly(ids, originals)
    unexplained = sorted(set(files).difference(change.file for change in planned.changes))
    if unexplained:
        raise ConflictError(
            f"{unexplained[0]}: the patches at hand do not make what is there: name the folder that they came "
            "from with --patches DIR, or undo them with git revert."
        )
    record = with_plan(Record(), planned, patches.digest, folders)
    texts = (text for change in planned.changes for text in (change.before, change.after))
    return Inferred(record, {digest_of(text): text for text in texts if text is not None})


def _refuse_unrecorded(tree: CheckoutTree, statuses: Sequence[PatchStatus], *, named: bool) -> None:
    """Raise ConflictError if the tree has a patch of ``statuses``, which no ledger records."""
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
