"""The audit is clean: no read of the CPU mirror that breaks when it is None."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.verify.result import Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.findings.finding import Confidence, Finding
    from patchkit.findings.report import Report

CHECK, TITLE = "audit", "The audit is clean"


def check(report: Report, confidence: Confidence, baseline: Iterable[Finding]) -> Result:
    """Judge an audit's report: findings at least as sure as ``confidence`` and not in ``baseline`` fail."""
    judged = report.at_least(confidence).against(baseline)
    left_out = len(report.findings) - len(judged.findings) - len(judged.known)
    notes = list(report.notes)
    for count, what in (
        (left_out, f"less sure than {confidence.value}: patchkit audit shows them"),
        (len(judged.known), "in the baseline"),
        (len(judged.suppressed), "suppressed with a reason"),
    ):
        if count:
            notes.append(f"{count} {'finding' if count == 1 else 'findings'} {what}")
    outcome = Outcome.FAILED if judged.findings else Outcome.PASSED
    return Result(CHECK, TITLE, outcome, f"{judged.files_scanned} files", judged.findings, tuple(notes))
