"""Check that backends which inherit an opt-out guard their reads of the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.finding import Confidence
from patchkit.findings.rule import Rule
from patchkit.tree import mirror
from patchkit.verify.check import Found, broken, register

if TYPE_CHECKING:
    from patchkit.findings.finding import Finding
    from patchkit.tree.backends import Heir
    from patchkit.verify.subject import Subject

BREAKS = Rule("PV404", "inherited-opt-out", "a backend inherits an opt-out and breaks without the mirror")


@register("opt-outs", "Backends that inherit an opt-out guard their reads", BREAKS, order=75)
def check(subject: Subject) -> Found:
    """Look up the audit's findings for each backend class that inherits an opt-out and reads the mirror."""
    heirs = subject.backends.heirs
    if not heirs:
        return Found("no backend that inherits an opt-out reads the mirror")
    findings = []
    notes = []
    for heir in heirs:
        breaks = _breaks(subject, heir)
        if breaks is not None:
            findings.append(_finding(heir, breaks))
        else:
            notes.append(
                f"{heir.told} only where it is present; if the path without it is slower, {heir.remedy}"
            )
    return Found(f"{len(heirs)} backends that read the mirror", tuple(findings), tuple(notes))


def _breaks(subject: Subject, heir: Heir) -> Finding | None:
    """Return the most certain finding of the audit in a method of the class itself."""
    names = {f"{heir.cls.name}.{name}" for name in heir.methods}
    found = [
        finding
        for finding in subject.report.at_least(Confidence.LIKELY).findings
        if finding.file == heir.cls.module.file and finding.function in names
    ]
    return min(found, key=lambda finding: finding.confidence.rank, default=None)


def _finding(heir: Heir, breaks: Finding) -> Finding:
    return broken(
        BREAKS,
        breaks.file,
        breaks.line,
        f"{heir.cls.name} inherits the opt-out of {heir.base.name} but reads the mirror, which is then None",
        heir.remedy,
        function=breaks.function,
        expression=breaks.expression or mirror.FLAG,
    )
