"""What an audit found, in the words that every output format shares."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

from patchkit.findings.finding import Confidence, Finding, Suppressed


@dataclass(frozen=True)
class Report:
    """The outcome of one audit; ``seconds`` is wall time."""

    findings: tuple[Finding, ...]
    files_scanned: int
    seconds: float
    suppressed: tuple[Suppressed, ...] = ()
    notes: tuple[str, ...] = ()
    known: tuple[Finding, ...] = field(default=())

    def at_least(self, confidence: Confidence) -> Report:
        """Return the report without findings less sure than ``confidence``."""
        kept = tuple(finding for finding in self.findings if finding.confidence.rank <= confidence.rank)
        return self._with(kept, self.known)

    def against(self, baseline: Iterable[Finding]) -> Report:
        """Return the report with the findings that the baseline has already moved to ``known``."""
        allowed = Counter(finding.fingerprint for finding in baseline)
        new: list[Finding] = []
        known: list[Finding] = []
        for finding in self.findings:
            if allowed[finding.fingerprint] > 0:
                allowed[finding.fingerprint] -= 1
                known.append(finding)
            else:
                new.append(finding)
        return self._with(tuple(new), tuple(known))

    def _with(self, findings: tuple[Finding, ...], known: tuple[Finding, ...]) -> Report:
        return Report(findings, self.files_scanned, self.seconds, self.suppressed, self.notes, known)

    def as_json(self) -> dict[str, Any]:
        """Return the report as the JSON contract spells it."""
        return {
            "findings": [finding.as_json() for finding in self.findings],
            "files_scanned": self.files_scanned,
            "seconds": round(self.seconds, 3),
            "suppressed": [{**entry.finding.as_json(), "reason": entry.reason} for entry in self.suppressed],
            "baseline": len(self.known),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Report:
        """Read back what :meth:`as_json` wrote, the baseline left out."""
        return cls(
            tuple(map(Finding.from_json, data["findings"])),
            int(data["files_scanned"]),
            float(data["seconds"]),
            tuple(Suppressed(Finding.from_json(entry), entry["reason"]) for entry in data["suppressed"]),
            tuple(data["notes"]),
        )
