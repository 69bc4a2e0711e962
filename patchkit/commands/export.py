"""Patches are written as files that ``git am`` applies, and the tree is only read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.plan.build import make_series
from patchkit.plan.refusal import PlanConflictError, describe_conflicts
from patchkit.series.export import export as exporting
from patchkit.tree.git import GitRepository, GitTree, place_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class Exported:
    """Each patch's status on the commit that is checked out, and the files written, in order."""

    patches: tuple[PatchStatus, ...]
    files: tuple[Path, ...]


def export(
    tree: CheckoutTree, patches: PatchSet, folder: Path, ids: Sequence[str] = (), *, only: bool = False
) -> Exported:
    """Write to ``folder`` what ``git am`` needs to apply ``ids`` to the commit that is checked out.

    What is in the working tree and not committed does not count. PlanConflictError, and nothing written, if a
    patch conflicts; TreeError if the tree is in no git checkout.
    """
    with GitRepository(tree.root) as repository:
        head = GitTree(repository, "HEAD", place_of(tree.package))
        planned, stages = make_series(head, patches.select(ids, only=only))
        conflicts = describe_conflicts(planned.patches)
        if conflicts:
            raise PlanConflictError(f"{conflicts}, so nothing was written: name the others.", planned)
        return Exported(planned.patches, exporting(head, stages, folder))
