"""How a tree stands, remembered for as long as no byte that it was read from has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from patchkit import cache
from patchkit.plan.marks import signers
from patchkit.plan.status import EditStatus, PatchStatus, Standing, State
from patchkit.tree.sglang import SERVING

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import Tree

_AREA = "status"
_ROOMS = ("codemods", "patchset", "plan", "tree")


class _Kept(msgspec.Struct, frozen=True):
    """One patch's status as it is kept."""

    patch: str
    state: State
    edits: tuple[EditStatus, ...]
    reason: str


class _Entry(msgspec.Struct, frozen=True):
    """What is kept for one tree, with the key that it was kept under."""

    key: str
    patches: tuple[_Kept, ...]
    unknown: tuple[str, ...]


def statuses(tree: Tree, patches: PatchSet) -> tuple[PatchStatus, ...]:
    """Return what ``plan.inspect`` says of all patches; its errors are never remembered."""
    return standing(tree, patches).patches


def standing(tree: Tree, patches: PatchSet) -> Standing:
    """Return the same, and which patches the tree's comments name that are not at hand.

    An entry that is not of this tree and these patches, whoever wrote it, is as good as none.
    """
    sources = _sources(tree, patches)
    name = f"{patches.digest[:16]}-{cache.key(sources, _ROOMS, ('libcst',))}"
    entry = cache.load(_AREA, name, _Entry)
    if entry is not None and entry.key == name and tuple(kept.patch for kept in entry.patches) == patches.ids:
        found = tuple(
            PatchStatus(patches.get(kept.patch), kept.state, kept.edits, kept.reason)
            for kept in entry.patches
        )
        return Standing(found, entry.unknown)
    # The syntax trees and what reads them are loaded only where they are needed.
    from patchkit.plan.build import inspect

    found = inspect(tree, tuple(patches))
    kept = tuple(_Kept(status.patch.id, status.state, status.edits, status.reason) for status in found)
    signed = frozenset[str]().union(*map(signers, sources.values()))
    unknown = tuple(sorted(signed.difference(patches.ids)))
    cache.save(_AREA, name, _Entry(name, kept, unknown))
    return Standing(found, unknown)


def _sources(tree: Tree, patches: PatchSet) -> dict[str, bytes]:
    """Return every file that an inspection may read: the serving package and what a patch names beside it."""
    named = {file for patch in patches for edit in patch.edits for file in edit.files}
    facts = {file for patch in patches for fact in patch.facts for file in fact.files}
    files = {*tree.files(SERVING), *named, *facts}
    read = {file: content for file in files if (content := tree.read(file)) is not None}
    return read | {"": (tree.version or "").encode()}  # Whether a tree is too old, it says itself.
