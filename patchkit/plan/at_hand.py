"""Patches are asked about files with other contents than the tree has: what they make of them, what is in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import UsageError
from patchkit.plan import vendor
from patchkit.plan.cache import statuses
from patchkit.plan.status import State
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, Plan
    from patchkit.tree.tree import Tree


class PatchesAtHand:
    """A patch set and the tree that lies behind the files in question; of those, None stands for no file."""

    def __init__(self, tree: Tree, patches: PatchSet) -> None:
        self._tree = tree
        self._patches = patches

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the patches, in order of application."""
        return self._patches.ids

    def statuses(self, contents: Mapping[str, bytes | None]) -> tuple[PatchStatus, ...]:
        """Return each patch's status on the tree with other contents of these files."""
        return statuses(OverlayTree(self._tree, contents) if contents else self._tree, self._patches)

    def replay(self, contents: Mapping[str, bytes | None], ids: Sequence[str]) -> Mapping[str, bytes | None]:
        """Return what the files become under these patches; UsageError if one of them is not at hand."""
        return {**contents, **{change.file: change.after for change in self.plan(contents, ids).changes}}

    def plan(self, contents: Mapping[str, bytes | None], ids: Sequence[str]) -> Plan:
        """Return the plan of these patches for the files; UsageError if one of them is not at hand."""
        # The syntax trees are loaded only where files were edited since: most reverts give old bytes back.
        from patchkit.plan.build import make_plan

        missing = [name for name in ids if name not in self._patches.ids]
        if missing:
            raise UsageError(f"{missing[0]} came from a folder of patches: name it again with --patches DIR.")
        there = OverlayTree(self._tree, contents)
        if any(file.startswith(f"{vendor.FOLDER}/") for file in contents):
            planned = make_plan(vendor.laid_over(there), vendor.pointed(self._chosen(ids)))
            return vendor.with_runtime(there, planned)
        return make_plan(there, self._chosen(ids))

    def present(self, contents: Mapping[str, bytes | None], ids: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Return the edits of these patches, as far as they are at hand, that are in place."""
        from patchkit.plan.build import inspect

        return frozenset(
            (status.patch.id, edit.name)
            for status in inspect(OverlayTree(self._tree, contents), self._chosen(ids))
            for edit in status.edits
            if edit.state in {State.APPLIED, State.UPSTREAM}
        )

    def _chosen(self, ids: Sequence[str]) -> tuple[Patch, ...]:
        return tuple(patch for patch in self._patches if patch.id in ids)
