"""Verify a tree, and write a row for each of its patches for the fork's list of backports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit import __version__
from patchkit.commands.status import status
from patchkit.commands.verify import verify
from patchkit.findings.finding import Confidence
from patchkit.series.backports import IN_TREE, backports
from patchkit.transaction.write import read_consistently
from patchkit.verify.result import CheckState
from patchkit.verify.subject import Criteria

if TYPE_CHECKING:
    from patchkit.change.land import Watch
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus
    from patchkit.series.backports import Backport
    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Verdict


def report(tree: CheckoutTree, patches: PatchSet, watch: Watch | None = None) -> tuple[Backport, ...]:
    """Verify ``tree`` and return a row for each patch in it; ``watch`` is that of ``verify``."""

    def answers(read: CheckoutTree) -> tuple[tuple[PatchStatus, ...], Verdict | None]:
        statuses = tuple(judged for judged in status(read, patches) if judged.patch.id in patches.ids)
        is_there = any(patch_status.state in IN_TREE for patch_status in statuses)
        return statuses, verify(read, patches, Criteria(Confidence.LIKELY), watch) if is_there else None

    statuses, verdict = read_consistently(tree, answers)
    if verdict is None:
        return ()
    failed = [result.title for result in verdict.results if result.outcome is CheckState.FAILED]
    made = sum(result.outcome is not CheckState.SKIPPED for result in verdict.results)
    result = f"failed: {'; '.join(failed)}" if failed else f"{made} checks passed"
    heading = f"{result} (patchkit {__version__} verify)"
    return backports(statuses, heading)
