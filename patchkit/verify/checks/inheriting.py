"""Check that backends which inherit an opt-out guard their reads of the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.finding import Confidence
from patchkit.findings.rule import Rule
from patchkit.tree import mirror
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from patchkit.findings.finding import Finding
    from patchkit.tree.backends import InheritingBackend
    from patchkit.verify.subject import Subject

BREAKS = Rule("PV404", "inherited-opt-out", "a backend inherits an opt-out and breaks without the mirror")


@register("opt-outs", "Backends that inherit an opt-out guard their reads", BREAKS, order=75)
def check(subject: Subject) -> CheckOutcome:
    """Look up the audit's findings for each backend class that inherits an opt-out and reads the mirror."""
    inheriting = subject.backends.inheriting
    if not inheriting:
        return CheckOutcome("no backend that inherits an opt-out reads the mirror")
    findings = []
    notes = []
    for backend in inheriting:
        breaks = _breaks(subject, backend)
        if breaks is not None:
            findings.append(_finding(backend, breaks))
        else:
            notes.append(
                f"{backend.description} only where it is present; if the path without it is slower, {backend.remedy}"
            )
    return CheckOutcome(f"{len(inheriting)} backends that read the mirror", tuple(findings), tuple(notes))


def _breaks(subject: Subject, backend: InheritingBackend) -> Finding | None:
    """Return the most certain finding of the audit in a method of the class itself."""
    names = {f"{backend.name}.{name}" for name in backend.methods}
    findings = [
        finding
        for finding in subject.report.at_least(Confidence.LIKELY).findings
        if finding.file == backend.file and finding.function in names
    ]
    return min(findings, key=lambda finding: finding.confidence.rank, default=None)


def _finding(backend: InheritingBackend, breaks: Finding) -> Finding:
    return violation(
        BREAKS,
        breaks.file,
        breaks.line,
        f"{backend.name} inherits the opt-out of {backend.base} but reads the mirror, which is then None",
        backend.remedy,
        function=breaks.function,
        expression=breaks.expression or mirror.FLAG,
    )
