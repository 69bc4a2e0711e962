"""Each patch's status on a tree, remembered for as long as no byte that it was read from has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit import cache
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import Tree

_AREA = "status"
_ROOMS = ("codemods", "patchset", "plan", "tree")


def statuses(tree: Tree, patches: PatchSet) -> tuple[PatchStatus, ...]:
    """Return what ``plan.inspect`` says of all patches; its errors are never remembered."""
    name = cache.key(_sources(tree, patches), _ROOMS, ("libcst",))
    kept = cache.load(_AREA, f"{patches.digest[:16]}-{name}")
    if kept is not None:
        return tuple(_status(patches.get(entry["patch"]), entry) for entry in kept)
    # The syntax trees and what reads them are loaded only where they are needed.
    from patchkit.plan.build import inspect

    found = inspect(tree, tuple(patches))
    cache.save(_AREA, f"{patches.digest[:16]}-{name}", [_entry(status) for status in found])
    return found


def _sources(tree: Tree, patches: PatchSet) -> dict[str, bytes]:
    """Return every file that an inspection may read: the serving package and what a patch names beside it."""
    named = {file for patch in patches for edit in patch.edits for file in edit.files}
    facts = {file for patch in patches for fact in patch.facts for file in fact.files}
    files = {*tree.files(SERVING), *named, *facts}
    return {file: content for file in files if (content := tree.read(file)) is not None}


def _entry(status: PatchStatus) -> dict[str, Any]:
    edits = [[edit.name, edit.file, edit.site, edit.state.value, edit.reason] for edit in status.edits]
    return {
        "patch": status.patch.id,
        "state": status.state.value,
        "reason": status.reason,
        "edits": edits,
    }


def _status(patch: Patch, entry: dict[str, Any]) -> PatchStatus:
    from patchkit.plan.status import EditStatus, PatchStatus, State

    edits = (
        EditStatus(name, file, site, State(state), reason)
        for name, file, site, state, reason in entry["edits"]
    )
    return PatchStatus(patch, State(entry["state"]), tuple(edits), entry["reason"])
