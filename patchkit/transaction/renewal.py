"""Take the older forms of patches back in memory, so that one write replaces them by the loaded ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError
from patchkit.plan.status import FileChange, State
from patchkit.transaction.candidates import Candidates
from patchkit.transaction.current import lined_record
from patchkit.transaction.revert import record_after, step_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.planner import Planner
    from patchkit.plan.record import Record
    from patchkit.plan.status import Plan
    from patchkit.tree.tree import ReadTree


@dataclass(frozen=True)
class Renewal:
    """Patches that are taken back: each of their files before and after that, and the record and contents after it."""

    patches: tuple[str, ...]
    files: Mapping[str, tuple[bytes | None, bytes | None]]
    record: Record
    kept: tuple[bytes, ...]

    @property
    def contents(self) -> dict[str, bytes | None]:
        """The files without the patches."""
        return {file: after for file, (_, after) in self.files.items()}

    def changing(self, plan: Plan) -> Plan:
        """Return a plan that was made for ``contents`` as one for the files as they are.

        Raise ConflictError if a patch that was taken back is not made again.
        """
        for status in plan.patches:
            if status.patch.id in self.patches and (
                status.state is State.CONFLICT or status.patch.id in plan.left_out
            ):
                raise ConflictError(
                    f"{status.patch.id}: the tree has an older form, and the loaded one conflicts ({status.reason})",
                    advice=f"patchkit revert {status.patch.id}, or use the version of patchkit that applied it",
                )
        made = {change.file: change for change in plan.changes}
        changes = tuple(
            FileChange(
                file,
                self.files[file][0] if file in self.files else made[file].before,
                made[file].after if file in made else self.files[file][1],
                made[file].patches if file in made else (),
            )
            for file in sorted({*made, *self.files})
        )
        return replace(plan, changes=changes)


def older_forms(tree: ReadTree, patches: PatchSet) -> frozenset[str]:
    """Return the patches of which the record has another form than the loaded one."""
    record = lined_record(tree)
    return frozenset(
        name
        for name, applied in record.patches.items()
        if name in patches.ids
        and name not in record.ported
        and applied.form not in ("", patches.get(name).form)
    )


def renewal(tree: ReadTree, patches: PatchSet, planner: Planner) -> Renewal | None:
    """Take back the patches with an older form, and those that share a file with them or require one of them.

    Return None if there is none. Raise ConflictError if one of them is not loaded or cannot be taken back.
    """
    names = older_forms(tree, patches)
    if not names:
        return None
    candidates = Candidates(tree, planner)
    names = _with_neighbours(names, candidates.record)
    missing = sorted(names.difference(patches.ids))
    if missing:
        raise ConflictError(
            f"{missing[0]} changed the same files as patches of an older form, and is not loaded",
            advice="pass its folder with --patches DIR",
        )
    step = step_of(tree, candidates, names, planner)
    if step is None:
        return None
    _, taken_back, plan = step
    kept = tuple(text for pair in plan.changes.values() for text in pair if text is not None)
    after = record_after(candidates.record, step, candidates.not_loaded.keys())
    return Renewal(tuple(sorted(taken_back)), plan.changes, after, (*plan.kept, *kept))


def _with_neighbours(names: frozenset[str], record: Record) -> frozenset[str]:
    neighbours = set(names)
    while True:
        shared = {
            name
            for layer in record.layers
            if not layer.is_ported
            for file in layer.files.values()
            if neighbours.intersection(file.patches)
            for name in file.patches
        }
        needing = {patch.id for patch in record.patches.values() if neighbours.intersection(patch.requires)}
        more = (shared | needing) - neighbours - record.ported
        if not more:
            return frozenset(neighbours)
        neighbours |= more
