"""What a verification found: a result a check, in the words that every output format shares."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from patchkit.findings.finding import Finding  # noqa: TC001  # read when a schema is made

if TYPE_CHECKING:
    from patchkit.plan.status import PatchStatus
    from patchkit.verify.subject import Subject


class Outcome(str, enum.Enum):
    """How a check ended; one that could not be made says why in its summary."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(msgspec.Struct, frozen=True):
    """One check: ``summary`` says in a few words what was looked at, ``seconds`` is wall time.

    The fields, in this order, are the JSON answer.
    """

    check: str
    title: str
    outcome: Outcome
    summary: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """All results in the order of the checks, and each patch's status (none where it cannot be told)."""

    subject: Subject
    results: tuple[Result, ...]
    statuses: tuple[PatchStatus, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(result.outcome is not Outcome.FAILED for result in self.results)

    @property
    def seconds(self) -> float:
        """Wall time of all checks."""
        return sum(result.seconds for result in self.results)
