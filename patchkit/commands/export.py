"""Write patches as a series of files for ``git am``; the tree is only read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.plan import record
from patchkit.plan.build import make_series
from patchkit.plan.fitting import fitting_plan
from patchkit.plan.refusal import require_fitting
from patchkit.plan.status import Plan
from patchkit.series.export import export as exporting
from patchkit.transaction.apply import with_plan
from patchkit.tree.git import place_of
from patchkit.tree.objects import GitRepository, GitTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, Stage
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class ExportResult:
    """Each patch's status on the checked-out commit, and the files written, in order."""

    patches: tuple[PatchStatus, ...]
    files: tuple[Path, ...]
    left: Mapping[str, str]
    """The patches that were left out because they do not fit, with the reasons."""
    has_crlf: bool = False
    """Whether a changed file has lines that end with CRLF, which git am keeps only with ``--keep-cr``."""


def export(tree: CheckoutTree, patches: PatchSet, folder: Path, ids: Sequence[str] = ()) -> ExportResult:
    """Write ``ids`` (default: the default patches) to ``folder`` as a ``git am`` series for the checked-out commit.

    Uncommitted changes are ignored. Patches that do not fit are left out. If one of ``ids``, or a patch that they
    require, does not fit, PlanConflictError is raised and nothing is written. Raise TreeError if the tree is not in a
    git checkout.
    """
    requested = patches.requested(ids)
    with GitRepository(tree.root, "name a TREE in a git repository") as repository:
        head = GitTree(repository, "HEAD", place_of(tree.package))
        stages: tuple[Stage, ...] = ()

        def made(without: frozenset[str]) -> Plan:
            nonlocal stages
            chosen = [patch for patch in patches.select(ids) if patch.id not in without]
            plan, stages = make_series(head, chosen)
            return plan

        planned = fitting_plan(made)
        require_fitting(planned, requested, "name the other patches only")
        files = exporting(head, stages, _records(head, stages), folder, patches.settings.subject_prefix)
        texts = (
            text for stage in stages for change in stage.changes for text in (change.before, change.after)
        )
        has_crlf = any(b"\r\n" in text for text in texts if text is not None)
        return ExportResult(planned.patches, files, planned.left_out, has_crlf)


def _records(head: GitTree, stages: Sequence[Stage]) -> tuple[dict[str, bytes], ...]:
    """Return the files of the record after each stage."""
    current = record.read(head)
    made: list[dict[str, bytes]] = []
    for stage in stages:
        after = with_plan(current, Plan(head, (stage.status,), stage.changes))
        made.append(record.files_of(after))
        # As each commit leaves it.
        current = record.parsed(tuple(made[-1].items()))
    return tuple(made)
