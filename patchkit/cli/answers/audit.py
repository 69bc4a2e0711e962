"""The answer of ``audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from patchkit.audit.optout import OptOut
from patchkit.cli.answers.base import Answer
from patchkit.findings.finding import Finding, Suppressed  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.findings.report import Report


class OptOutAnswer(OptOut, frozen=True):
    """A backend; it can opt out if nothing that it runs reads the mirror unguarded."""

    can_opt_out: bool

    @classmethod
    def of(cls, entry: OptOut) -> OptOutAnswer:
        """Return the answer for a backend."""
        return cls(**asdict(entry), can_opt_out=entry.can_opt_out)


class Audit(Answer, frozen=True, kw_only=True):
    """The answer of ``audit``; ``baseline`` counts the known findings, ``opt_out`` is that of ``--suggest-opt-out``."""

    findings: tuple[Finding, ...]
    files_scanned: int
    seconds: float
    suppressed: tuple[Suppressed, ...]
    notes: tuple[str, ...]
    baseline: int
    opt_out: tuple[OptOutAnswer, ...] | UnsetType = UNSET

    @classmethod
    def of(cls, report: Report, entries: Iterable[OptOut] | None = None) -> Audit:
        """Return the answer for a report and, with ``--suggest-opt-out``, for the backends."""
        return cls(
            findings=report.findings,
            files_scanned=report.files_scanned,
            seconds=round(report.seconds, 3),
            suppressed=report.suppressed,
            notes=report.notes,
            baseline=len(report.known),
            opt_out=UNSET if entries is None else tuple(map(OptOutAnswer.of, entries)),
        )
