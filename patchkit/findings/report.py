"""The result of one check: findings, suppressed findings, findings of a baseline, and notes."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from patchkit.findings.finding import Confidence, Finding, Suppressed  # noqa: TC001  # read when a report is decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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
        identity = attrgetter("fingerprint")
        new, baselined = new_and_earlier(self.findings, Counter(map(identity, baseline)), identity)
        return replace(self, findings=tuple(new), known=tuple(baselined))


def new_and_earlier(
    findings: Iterable[Finding],
    earlier: Counter[tuple[str, ...]],
    identity: Callable[[Finding], tuple[str, ...]],
) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that are new, and the others: of each identity at most as many as there were earlier."""
    left = earlier.copy()
    new: list[Finding] = []
    others: list[Finding] = []
    for finding in findings:
        (others if left[identity(finding)] > 0 else new).append(finding)
        left[identity(finding)] -= 1
    return new, others
