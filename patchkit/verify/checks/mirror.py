"""Check that the audit finds no read of the CPU mirror that breaks when it is None."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.plural import counted
from patchkit.verify.check import CheckOutcome, register

if TYPE_CHECKING:
    from patchkit.verify.subject import Subject


@register("audit", "The audit is clean", order=80)
def check(subject: Subject) -> CheckOutcome:
    """Fail on findings of the audit that reach the required confidence and are not in the baseline."""
    report, criteria = subject.report, subject.criteria
    judged = report.at_least(criteria.confidence).against(criteria.baseline)
    left_out = len(report.findings) - len(judged.findings) - len(judged.known)
    notes = list(report.notes)
    for count, what in (
        (left_out, f"below the confidence {criteria.confidence.value}: patchkit audit lists them"),
        (len(judged.known), "in the baseline"),
        (len(judged.suppressed), "suppressed with a reason"),
    ):
        if count:
            notes.append(f"{counted(count, 'finding')} {what}")
    return CheckOutcome(counted(judged.files_scanned, "file"), judged.findings, tuple(notes))
