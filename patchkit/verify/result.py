"""What a verification found: a result a check, in the words that every output format shares."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchkit.findings.finding import Finding
    from patchkit.plan.status import PatchStatus


class Outcome(str, enum.Enum):
    """How a check ended; one that could not be made says why in its summary."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Result:
    """One check: ``summary`` says in a few words what was looked at, ``seconds`` is wall time."""

    check: str
    title: str
    outcome: Outcome
    summary: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the result as the JSON answer spells it."""
        return {
            "check": self.check,
            "title": self.title,
            "outcome": self.outcome.value,
            "summary": self.summary,
            "findings": [finding.as_json() for finding in self.findings],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True)
class Verdict:
    """All results in the order of the checks, and each patch's status (none where it cannot be told)."""

    results: tuple[Result, ...]
    statuses: tuple[PatchStatus, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(result.outcome is not Outcome.FAILED for result in self.results)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of every check, in order."""
        return tuple(finding for result in self.results for finding in result.findings)

    @property
    def seconds(self) -> float:
        """Wall time of all checks."""
        return sum(result.seconds for result in self.results)
