"""What a person wrote in place of an edit is recorded as that edit, and remembered for the same code elsewhere."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, PatchkitError, UsageError
from patchkit.plan.conflict import at_site
from patchkit.plan.planner import Planner
from patchkit.plan.resolutions import remember
from patchkit.plan.status import State
from patchkit.transaction import resolve as resolving
from patchkit.transaction.unfinished import advice, before_markers, unfinished
from patchkit.transaction.write import require_settled
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import EditStatus
    from patchkit.tree.tree import CheckoutTree

    Contents = Mapping[str, bytes | None]


@dataclass(frozen=True)
class Resolved:
    """Whether an edit was recorded as made by hand now, and what was written for it is known elsewhere."""

    recorded: bool
    remembered: bool


def resolve(tree: CheckoutTree, patches: PatchSet, patch: str, edit: str) -> Resolved:
    """Record that a person made an edit, and remember what they wrote where apply had left its conflict.

    UsageError for an unknown edit; ConflictError, and nothing recorded, while its markers stand, if the code
    does not have what the edit is for, or if patchkit made it.
    """
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
    status = _in_place(tree, patches, before, patch, edit)

    def holds(file: str, text: bytes) -> bool:
        try:
            _in_place(tree, patches, {**before, file: text}, patch, edit)
        except PatchkitError:
            return False
        return True

    found = resolving.record_by_hand(tree, named, status, holds)
    if found is None:
        return Resolved(recorded=True, remembered=False)
    conflict = at_site(OverlayTree(tree, {status.file: found.original}), named, status)
    return Resolved(recorded=True, remembered=remember(conflict, found.original, found.text))


def _require_edit(patch: Patch, name: str) -> None:
    names = [edit.name for edit in patch.edits]
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"{patch.id} has no edit {name!r}: {hint}patchkit show {patch.id} lists them.")


def _in_place(tree: CheckoutTree, patches: PatchSet, contents: Contents, patch: str, edit: str) -> EditStatus:
    """Return an edit that is in place in files with these contents; ConflictError says what is missing."""
    statuses = Planner(tree, patches).statuses(patches.select([patch], only=True), contents)
    status = next(s for s in statuses if s.patch.id == patch)
    found = [each for each in status.edits if each.name == edit]
    if not found:
        raise ConflictError(
            f"{patch}: {edit} is not for this tree: {status.reason or 'its shape is another'}."
        )
    for each in found:
        if each.state not in {State.APPLIED, State.UPSTREAM}:
            why = each.reason or "patchkit apply can make it"
            raise ConflictError(
                f"{each.file}: {each.site or 'module'}: {patch}: {edit} is not in place: {why}; patchkit diff shows "
                "what it is for."
            )
    return found[0]
