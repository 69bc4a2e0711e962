"""The result of one check: findings, suppressed findings, findings of a baseline, and notes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from patchkit.findings.finding import Confidence, Finding, Suppressed  # noqa: TC001  # read when a report is decoded

if TYPE_CHECKING:
    from collections.abc import Iterable


class Report(msgspec.Struct, frozen=True):
    """The result of one check of a tree; ``seconds`` is wall time."""

    findings: tuple[Finding, ...]
    files_scanned: int
    seconds: float
    suppressed: tuple[Suppressed, ...] = ()
    notes: tuple[str, ...] = ()
    known: tuple[Finding, ...] = ()

    def at_least(self, confidence: Confidence) -> Report:
        """Return the report without findings less certain than ``confidence``."""
        findings = tuple(finding for finding in self.findings if finding.confidence.rank <= confidence.rank)
        return replace(self, findings=findings)

    def against(self, baseline: Iterable[Finding]) -> Report:
        """Return the report with the findings of ``baseline`` moved to ``known``."""
        allowed = Counter(finding.fingerprint for finding in baseline)
        new: list[Finding] = []
        baselined: list[Finding] = []
        for finding in self.findings:
            if allowed[finding.fingerprint] > 0:
                allowed[finding.fingerprint] -= 1
                baselined.append(finding)
            else:
                new.append(finding)
        return replace(self, findings=tuple(new), known=tuple(baselined))
