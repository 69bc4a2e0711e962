"""What an audit found, in the words that every output format shares."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class Confidence(str, enum.Enum):
    """How sure the audit is that a finding can happen; ordered by :attr:`rank`."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 for the surest."""
        return list(Confidence).index(self)


@dataclass(frozen=True)
class Step:
    """One assignment or call on the way of a None."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One use that breaks when the mirror is None; ``file`` is relative to the package folder."""

    rule: str
    file: str
    line: int
    function: str
    expression: str
    message: str
    confidence: Confidence
    path: tuple[Step, ...]
    guard: str

    @property
    def fingerprint(self) -> tuple[str, str, str, str]:
        """What stays the same when code above the finding moves it."""
        return self.rule, self.file, self.function, self.expression

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the JSON contract spells it."""
        return {
            "rule": self.rule,
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "expression": self.expression,
            "message": self.message,
            "confidence": self.confidence.value,
            "path": [{"file": step.file, "line": step.line, "text": step.text} for step in self.path],
            "guard": self.guard,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Finding:
        """Read back :meth:`as_json`. Raises KeyError, TypeError or ValueError for anything else."""
        path = tuple(Step(step["file"], int(step["line"]), step["text"]) for step in data["path"])
        return cls(
            data["rule"],
            data["file"],
            int(data["line"]),
            data["function"],
            data["expression"],
            data["message"],
            Confidence(data["confidence"]),
            path,
            data["guard"],
        )


@dataclass(frozen=True)
class Suppressed:
    """A finding that a comment in the source takes back, with the comment's reason."""

    finding: Finding
    reason: str


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
