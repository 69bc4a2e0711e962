"""The audit is clean: no read of the CPU mirror that breaks when it is None."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.verify.check import Found, register

if TYPE_CHECKING:
    from patchkit.verify.subject import Subject


@register("audit", "The audit is clean", order=80)
def check(subject: Subject) -> Found:
    """Judge an audit's report: findings that are sure enough for the terms and not in the baseline fail."""
    report, terms = subject.report, subject.terms
    judged = report.at_least(terms.confidence).against(terms.baseline)
    left_out = len(report.findings) - len(judged.findings) - len(judged.known)
    notes = list(report.notes)
    for count, what in (
        (left_out, f"less sure than {terms.confidence.value}: patchkit audit shows them"),
        (len(judged.known), "in the baseline"),
        (len(judged.suppressed), "suppressed with a reason"),
    ):
        if count:
            notes.append(f"{count} {'finding' if count == 1 else 'findings'} {what}")
    return Found(f"{judged.files_scanned} files", judged.findings, tuple(notes))
