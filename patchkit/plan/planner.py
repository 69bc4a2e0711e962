"""Whatever is planned for a tree and its patches is planned here, of files as they stand or with other contents.

A tree depends on the set of its patches: one that comes later stands as if it had come with the others. That holds
while nobody else has touched the files. Where somebody has, a later patch is made in what stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.errors import TreeError, UsageError
from patchkit.plan import cache, vendor
from patchkit.plan.status import FileChange, State
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, Plan, Standing
    from patchkit.tree.tree import Tree

    Contents = Mapping[str, bytes | None]

_MADE = frozenset({State.PENDING, State.PARTIAL})


@dataclass(frozen=True)
class Origin:
    """What a tree was before its ``patches``, whose files nobody else has touched since.

    ``makers`` are the patches that a file is recorded as made by, each as file and patch id.
    """

    patches: tuple[str, ...]
    contents: Contents
    makers: frozenset[tuple[str, str]]


class Planner:
    """A tree, and the patches at hand; where files have other contents, None stands for no file.

    ``runtime`` is where patched code gets its runtime: ``import`` from the installed patchkit, ``vendored`` from a
    copy in the tree; empty: as the tree has it.
    """

    def __init__(self, tree: Tree, patches: PatchSet, runtime: str = "") -> None:
        self._tree = tree
        self._patches = patches
        self._runtime = runtime

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the patches at hand, in order of application."""
        return self._patches.ids

    def plan(
        self,
        ids: Sequence[str] = (),
        *,
        only: bool = False,
        closely: bool = False,
        certain: bool = False,
        contents: Contents | None = None,
        without: frozenset[str] = frozenset(),
    ) -> Plan:
        """Return what applying ``ids`` (none: all that are on) with what they need would do; conflicts are states.

        ``only``, ``closely`` and ``certain`` are those of ``PatchSet.select`` and ``make_plan``; patches ``without``
        which it is made are as if nobody had named them. UsageError for an unknown patch; ConflictError if some of the
        tree's patched code takes the runtime from elsewhere.
        """
        chosen = [patch for patch in self._patches.select(ids, only=only) if patch.id not in without]
        there = OverlayTree(self._tree, contents) if contents else self._tree
        return _made(there, chosen, vendored=self._vendored(), closely=closely, certain=certain)

    def together(self, plan: Plan, origin: Origin | None) -> Plan:
        """Return a plan whose files are what the tree's patches and the plan's make of the ``origin`` together.

        It is the plan itself where there is no such origin, where a patch that is not left out conflicts, where one was
        resolved by hand, and where the patches at hand no longer make what stands.
        """
        if origin is None or plan.by_hand:
            return plan
        try:
            return self._together(plan, origin)
        except (TreeError, UsageError):
            return plan

    def exactly(self, ids: Sequence[str], contents: Contents) -> Plan:
        """Return what these patches, and no others, make of the files; UsageError if one of them is not at hand.

        Of a patch that conflicts it is what is certain, as it was written beside markers.
        """
        missing = [name for name in ids if name not in self._patches.ids]
        if missing:
            raise UsageError(f"{missing[0]} came from a folder of patches: name it again with --patches DIR.")
        vendored = any(file.startswith(f"{vendor.FOLDER}/") for file in contents)
        return _made(OverlayTree(self._tree, contents), self._named(ids), vendored=vendored, certain=True)

    def replay(self, contents: Contents, ids: Sequence[str]) -> Contents:
        """Return what the files become under these patches; UsageError if one of them is not at hand."""
        return _after(contents, self.exactly(ids, contents))

    def present(self, contents: Contents, ids: Sequence[str]) -> frozenset[tuple[str, str]]:
        """Return the edits of these patches, as far as they are at hand, that are in place."""
        return frozenset(
            (status.patch.id, edit.name)
            for status in self.statuses(self._named(ids), contents)
            for edit in status.edits
            if edit.state in {State.APPLIED, State.UPSTREAM}
        )

    def statuses(self, patches: Sequence[Patch], contents: Contents | None = None) -> tuple[PatchStatus, ...]:
        """Return the status of each of ``patches``; TreeError where a file of interest is not Python."""
        from patchkit.plan.build import inspect  # Loaded late, as below.

        there = OverlayTree(self._tree, contents) if contents else self._tree
        return inspect(there, vendor.pointed(patches) if vendor.is_vendored(there) else patches)

    def standing(self, contents: Contents | None = None) -> Standing:
        """Return how all patches stand, which is remembered, and what ``cache.standing`` says beside it."""
        return cache.standing(OverlayTree(self._tree, contents) if contents else self._tree, self._patches)

    def _named(self, ids: Sequence[str]) -> tuple[Patch, ...]:
        return tuple(patch for patch in self._patches if patch.id in ids)

    def _vendored(self) -> bool:
        if not self._runtime:
            return vendor.is_vendored(self._tree)
        vendored = self._runtime == "vendored"
        files = sorted({file for patch in self._patches for edit in patch.edits for file in edit.files})
        vendor.require_one_runtime(self._tree, files, vendored=vendored)
        return vendored

    def _together(self, plan: Plan, origin: Origin) -> Plan:
        made = {status.patch.id for status in plan.made}
        ids = tuple(
            s.patch.id
            for s in plan.patches
            if s.patch.id in made or s.patch.id not in {*origin.patches, *plan.left}
        )
        if not ids or any(s.state is State.CONFLICT and s.patch.id not in plan.left for s in plan.patches):
            return plan
        stands = {file: self._tree.read(file) for file in origin.contents}
        # In the plan's own order, in which a clone that lacks history has the files too.
        planned = {c.file: origin.contents.get(c.file, c.before) for c in plan.changes}
        originals = planned | {**origin.contents}
        together = self.exactly((*origin.patches, *ids), originals)
        known = {status.patch.id: status for status in together.patches}
        fresh = {name for name in ids if name in known and known[name].state in _MADE and name not in made}
        after = _after(originals, together)
        noted = origin.makers | _makers(plan)
        if not fresh and _makers(together) <= noted and after == _after(originals | stands, plan):
            return plan
        if any(status.state is State.CONFLICT for status in together.patches) or stands != {
            file: text for file, text in self.replay(originals, origin.patches).items() if file in stands
        }:
            return plan
        patches = tuple(known[s.patch.id] if s.patch.id in fresh else s for s in plan.patches)
        return replace(plan, patches=patches, changes=_changes(originals | stands, together, after, {*ids}))


def _made(
    tree: Tree, patches: Sequence[Patch], *, vendored: bool, closely: bool = False, certain: bool = False
) -> Plan:
    # The syntax trees are loaded only where something is planned: most reverts give old bytes back.
    from patchkit.plan.build import make_plan

    if not vendored:
        return make_plan(tree, patches, closely=closely, certain=certain)
    plan = make_plan(vendor.laid_over(tree), vendor.pointed(patches), closely=closely, certain=certain)
    return vendor.with_runtime(tree, plan)


def _makers(plan: Plan) -> frozenset[tuple[str, str]]:
    return frozenset((change.file, name) for change in plan.changes for name in change.patches)


def _after(contents: Contents, plan: Plan) -> dict[str, bytes | None]:
    return {**contents, **{change.file: change.after for change in plan.changes}}


def _changes(stands: Contents, together: Plan, after: Contents, ids: set[str]) -> tuple[FileChange, ...]:
    """Return what makes of the files what they are to be, and those of which only who made them is to be noted."""
    makers = {change.file: change.patches for change in together.changes}
    files = {file: stands.get(file) for file in after}
    return tuple(
        FileChange(file, before, after[file], makers.get(file, ()))
        for file, before in files.items()
        if before != after[file] or ids & set(makers.get(file, ()))
    )
