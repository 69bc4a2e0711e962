"""Each patch's status on a tree, remembered for as long as no byte that it was read from has changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit import memory

if TYPE_CHECKING:
    from patchkit.patchset import Patch, PatchSet
    from patchkit.plan import PatchStatus
    from patchkit.tree import Tree

_AREA = "status"


def standing(tree: Tree, patches: PatchSet) -> tuple[PatchStatus, ...]:
    """Return what ``plan.inspect`` says of all patches; its errors are never remembered."""
    name = memory.key(_sources(tree, patches), _programs())
    kept = memory.load(_AREA, f"{patches.digest[:16]}-{name}")
    if kept is not None:
        return tuple(_status(patches.get(entry["patch"]), entry) for entry in kept)
    # The syntax trees and what reads them are loaded only where they are needed.
    from patchkit.plan import inspect

    statuses = inspect(tree, tuple(patches))
    memory.save(_AREA, f"{patches.digest[:16]}-{name}", [_entry(status) for status in statuses])
    return statuses


def _sources(tree: Tree, patches: PatchSet) -> dict[str, bytes]:
    """Return every file that an inspection may read: the serving package and what a patch names beside it."""
    named = {file for patch in patches for edit in patch.edits for file in edit.files}
    facts = {file for patch in patches for fact in patch.facts for file in fact.files}
    files = {*tree.files("srt"), *named, *facts}
    return {file: content for file in files if (content := tree.read(file)) is not None}


def _programs() -> list[Path]:
    package = Path(__file__).parent
    return sorted([*package.glob("*.py"), *package.glob("codemods/*.py")])


def _entry(status: PatchStatus) -> dict[str, Any]:
    edits = [[edit.name, edit.file, edit.site, edit.state.value, edit.reason] for edit in status.edits]
    return {
        "patch": status.patch.id,
        "state": status.state.value,
        "reason": status.reason,
        "edits": edits,
    }


def _status(patch: Patch, entry: dict[str, Any]) -> PatchStatus:
    from patchkit.plan import EditStatus, PatchStatus, State

    edits = (
        EditStatus(name, file, site, State(state), reason)
        for name, file, site, state, reason in entry["edits"]
    )
    return PatchStatus(patch, State(entry["state"]), tuple(edits), entry["reason"])
