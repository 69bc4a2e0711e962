"""Make the plans of commands that change or describe a tree, on its current files or with other contents.

`build.make_plan` alone makes those of hypothetical trees, as the doctor, the matrix and drafts need them.

A patched tree depends only on the set of its patches: applying one later gives the same files as applying it together
with the others. Once the files have other edits, a later patch is applied to the current files instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from patchkit.errors import TreeError, UsageError
from patchkit.plan import cache, vendor
from patchkit.plan.status import IN_PLACE, FileChange, State
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, Plan, Stage, TreeStatus
    from patchkit.tree.tree import Contents, Tree

_MADE = frozenset({State.PENDING, State.PARTIAL})


class PatchBase(NamedTuple):
    """The contents of the patched files before ``patches``; these files were not edited otherwise since.

    ``makers`` are the recorded pairs of a file and the id of a patch that changed it.
    """

    patches: tuple[str, ...]
    contents: Contents
    makers: frozenset[tuple[str, str]]


class Planner:
    """Plans patches on a tree. In ``contents``, None removes a file.

    ``runtime`` says where patched code imports the runtime from: ``import`` for the installed patchkit, ``vendored``
    for a copy in the tree, empty for what the tree already uses.
    """

    def __init__(self, tree: Tree, patches: PatchSet, runtime: str = "") -> None:
        self._tree = tree
        self._patches = patches
        self._runtime = runtime

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the loaded patches, in order of application."""
        return self._patches.ids

    def plan(
        self,
        ids: Sequence[str] = (),
        *,
        try_closest_shape: bool = False,
        allow_partial: bool = False,
        contents: Contents | None = None,
        without: frozenset[str] = frozenset(),
    ) -> Plan:
        """Return what applying ``ids`` (default: the default patches) with their requirements would do.

        Conflicts are states, not errors. ``try_closest_shape`` and ``allow_partial`` are those of ``make_plan``; the
        patches in ``without`` are not planned. Raise UsageError for an unknown patch, and ConflictError if patched code
        in the tree imports the runtime from elsewhere, or a vendored one that is missing.
        """
        chosen = [patch for patch in self._patches.select(ids) if patch.id not in without]
        tree = OverlayTree(self._tree, contents) if contents else self._tree
        options = {"try_closest_shape": try_closest_shape, "allow_partial": allow_partial}
        return _plan_on(tree, chosen, vendored=self._vendored(), **options)

    def combined_plan(self, plan: Plan, base: PatchBase | None) -> Plan:
        """Return a plan that gives the files that the tree's and the plan's patches together make of ``base``.

        Return ``plan`` itself if there is no base, if a patch that is not left out conflicts, if an edit was resolved
        by hand, or if replaying the tree's patches no longer gives its current files.
        """
        if base is None or plan.manual_edits:
            return plan
        try:
            return self._combined_plan(plan, base)
        except (TreeError, UsageError):
            return plan

    def plan_exactly(self, ids: Sequence[str], contents: Contents) -> Plan:
        """Return the plan of exactly these patches for the given contents. Raise UsageError if one is not loaded.

        Of a conflicting patch, the edits with unambiguous sites are planned, as they were when markers were written.
        """
        missing = [name for name in ids if name not in self._patches.ids]
        if missing:
            raise UsageError(
                f"{missing[0]} is not loaded",
                advice="if it came from a folder of patches, name that folder with --patches DIR",
            )
        vendored = any(file.startswith(f"{vendor.FOLDER}/") for file in contents)
        return _plan_on(
            OverlayTree(self._tree, contents), self._named(ids), vendored=vendored, allow_partial=True
        )

    def stages(self, ids: Sequence[str]) -> tuple[Stage, ...]:
        """Return the stages of exactly these patches; none for a vendored runtime, whose files some of them bring."""
        from patchkit.plan.build import make_series

        return () if self._vendored() else make_series(self._tree, self._named(ids))[1]

    def replay(self, contents: Contents, ids: Sequence[str]) -> Contents:
        """Return the contents after exactly these patches. Raise UsageError if one is not loaded."""
        return _contents_after(contents, self.plan_exactly(ids, contents))

    def present(self, contents: Contents, ids: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Return the edits in place, as patch id and edit name, of those of these patches that are loaded."""
        return frozenset(
            (status.patch.id, edit.name)
            for status in self.statuses_of(ids, contents)
            for edit in status.edits
            if edit.state in IN_PLACE
        )

    def statuses_of(self, ids: Collection[str], contents: Contents | None = None) -> tuple[PatchStatus, ...]:
        """Return ``statuses`` of those of these patches that are loaded."""
        return self.statuses(self._named(ids), contents)

    def statuses(self, patches: Sequence[Patch], contents: Contents | None = None) -> tuple[PatchStatus, ...]:
        """Return the status of each of ``patches``. Raise TreeError if a file that one names is not valid Python."""
        from patchkit.plan.build import inspect  # libcst is slow to import.

        tree = OverlayTree(self._tree, contents) if contents else self._tree
        return inspect(tree, vendor.with_vendored_imports(patches) if vendor.is_vendored(tree) else patches)

    def tree_status(self, contents: Contents | None = None) -> TreeStatus:
        """Return the cached result of ``cache.tree_status`` for all patches."""
        return cache.tree_status(OverlayTree(self._tree, contents) if contents else self._tree, self._patches)

    def _named(self, ids: Collection[str]) -> tuple[Patch, ...]:
        return tuple(patch for patch in self._patches if patch.id in ids)

    def _vendored(self) -> bool:
        files = sorted({file for patch in self._patches for edit in patch.edits for file in edit.files})
        if not self._runtime:
            return vendor.uses_vendored(self._tree, files)
        vendored = self._runtime == "vendored"
        vendor.require_one_runtime(self._tree, files, vendored=vendored)
        return vendored

    def _combined_plan(self, plan: Plan, base: PatchBase) -> Plan:
        made = {status.patch.id for status in plan.changed_patches}
        ids = tuple(
            s.patch.id
            for s in plan.patches
            if s.patch.id in made or s.patch.id not in {*base.patches, *plan.left_out}
        )
        if not ids or any(
            s.state is State.CONFLICT and s.patch.id not in plan.left_out for s in plan.patches
        ):
            return plan
        current = {file: self._tree.read(file) for file in base.contents}
        # The plan's order comes first, so that the result is the same in a clone without history.
        planned = {c.file: base.contents.get(c.file, c.before) for c in plan.changes}
        originals = planned | {**base.contents}
        combined = self.plan_exactly((*base.patches, *ids), originals)
        by_id = {status.patch.id: status for status in combined.patches}
        fresh = {name for name in ids if name in by_id and by_id[name].state in _MADE and name not in made}
        after = _contents_after(originals, combined)
        noted = base.makers | _makers(plan)
        if not fresh and _makers(combined) <= noted and after == _contents_after(originals | current, plan):
            return plan
        # In a file that a person has taken back, what was applied before would be made again.
        if any(status.state is State.CONFLICT for status in combined.patches) or (
            originals | current != self.replay(originals, base.patches)
        ):
            return plan
        patches = tuple(by_id[s.patch.id] if s.patch.id in fresh else s for s in plan.patches)
        return replace(plan, patches=patches, changes=_changes(originals | current, combined, after, {*ids}))


def _plan_on(tree: Tree, patches: Sequence[Patch], *, vendored: bool, **options: Any) -> Plan:
    # libcst is slow to import, and most reverts only restore recorded bytes.
    from patchkit.plan.build import make_plan

    if not vendored:
        return make_plan(tree, patches, **options)
    plan = make_plan(vendor.with_runtime_files(tree), vendor.with_vendored_imports(patches), **options)
    return vendor.with_runtime(tree, plan)


def _makers(plan: Plan) -> frozenset[tuple[str, str]]:
    return frozenset((change.file, name) for change in plan.changes for name in change.patches)


def _contents_after(contents: Contents, plan: Plan) -> dict[str, bytes | None]:
    return {**contents, **{change.file: change.after for change in plan.changes}}


def _changes(current: Contents, combined: Plan, after: Contents, ids: set[str]) -> tuple[FileChange, ...]:
    """Return the changes to the files, including unchanged files for which a new patch has to be recorded."""
    makers = {change.file: change.patches for change in combined.changes}
    files = {file: current.get(file) for file in after}
    return tuple(
        FileChange(file, before, after[file], makers.get(file, ()))
        for file, before in files.items()
        if before != after[file] or ids & set(makers.get(file, ()))
    )
