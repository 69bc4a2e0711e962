"""Convert a verdict into the sections that output formats take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.answer import Section
from patchkit.findings.report import Report
from patchkit.verify.result import CheckState

if TYPE_CHECKING:
    from patchkit.verify.result import Verdict


def sections(verdict: Verdict) -> tuple[Section, ...]:
    """Return one section a check."""
    return tuple(
        Section(
            f"patchkit verify {result.check}",
            result.title,
            Report(result.findings, 0, result.seconds, notes=result.notes),
            result.summary if result.outcome is CheckState.SKIPPED else "",
        )
        for result in verdict.results
    )
