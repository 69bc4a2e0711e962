"""Find the reads of the CPU mirror that fail when it is None."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.audit.engine import audit_cached, unread_noted
from patchkit.transaction.conflicts import read_without_conflicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.change.land import Watch
    from patchkit.findings.finding import Finding
    from patchkit.findings.report import Report
    from patchkit.tree.tree import CheckoutTree


def audit(
    tree: CheckoutTree,
    baseline: Sequence[Finding] = (),
    *,
    allow_unread: bool = False,
    watch: Watch | None = None,
) -> Report:
    """Return the reads of the CPU mirror that fail when it is None; findings in ``baseline`` are reported as known.

    A folder that cannot be read is a finding, or a note with ``allow_unread``. ``watch`` is called with the current
    function, the number of functions done, and their total.
    """
    report = read_without_conflicts(tree, lambda read: audit_cached(read, watch))
    return (unread_noted(report) if allow_unread else report).against(baseline)
