"""Patches are written as files that ``git am`` applies, and the tree is only read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.plan.build import make_series
from patchkit.plan.fitting import fitting
from patchkit.plan.refusal import require_fitting
from patchkit.series.export import export as exporting
from patchkit.tree.git import GitRepository, GitTree, place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, Plan, Stage
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class Exported:
    """Each patch's status on the commit that is checked out, and the files written, in order."""

    patches: tuple[PatchStatus, ...]
    files: tuple[Path, ...]
    left: Mapping[str, str]
    """The patches that were left out because they do not fit, and why."""


def export(
    tree: CheckoutTree, patches: PatchSet, folder: Path, ids: Sequence[str] = (), *, only: bool = False
) -> Exported:
    """Write to ``folder`` what ``git am`` needs to apply ``ids`` to the commit that is checked out.

    What is in the working tree and not committed does not count. What does not fit is left out: PlanConflictError, and
    nothing written, if ``ids`` or what they require are among that. TreeError if the tree is in no git checkout.
    """
    asked = patches.asked(ids)
    with GitRepository(tree.root) as repository:
        head = GitTree(repository, "HEAD", place_of(tree.package))
        stages: tuple[Stage, ...] = ()

        def made(without: frozenset[str]) -> Plan:
            nonlocal stages
            chosen = [patch for patch in patches.select(ids, only=only) if patch.id not in without]
            plan, stages = make_series(head, chosen)
            return plan

        planned = fitting(made)
        require_fitting(planned, asked, "name the others")
        files = exporting(head, stages, folder, patches.wishes.subject_prefix)
        return Exported(planned.patches, files, planned.left)
