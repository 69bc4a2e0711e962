"""The result of a verification: one result per check, independent of the output format."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from patchkit.errors import PatchkitError
from patchkit.findings.finding import Finding  # noqa: TC001  # read when a schema is made
from patchkit.findings.plural import counted

if TYPE_CHECKING:
    from patchkit.plan.status import PatchStatus, Plan
    from patchkit.verify.subject import Subject


class CheckState(str, enum.Enum):
    """How a check ended; a skipped check gives the reason in its summary."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Result(msgspec.Struct, frozen=True):
    """The result of one check; ``summary`` is a few words on what was checked, ``seconds`` is wall time.

    The order of the fields is part of the JSON format.
    """

    check: str
    title: str
    outcome: CheckState
    summary: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """All results in the order of the checks, and each patch's status (none if it cannot be determined)."""

    subject: Subject
    results: tuple[Result, ...]
    statuses: tuple[PatchStatus, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(result.outcome is not CheckState.FAILED for result in self.results)

    @property
    def seconds(self) -> float:
        """Wall time of all checks."""
        return sum(result.seconds for result in self.results)


class UnverifiedError(PatchkitError):
    """A check failed on the commits, so nothing was changed; ``verdict`` has its findings, ``plan`` the states."""

    def __init__(self, verdict: Verdict, plan: Plan) -> None:
        failed = sum(result.outcome is CheckState.FAILED for result in verdict.results)
        super().__init__(
            f"{counted(failed, 'check')} failed on the commits, so nothing was changed",
            advice="fix what the checks name, or apply without --verify and fix it there",
        )
        self.verdict, self.plan = verdict, plan
