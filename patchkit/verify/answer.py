"""A verdict as plain data: the JSON answer, and the sections that every output format takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from patchkit.findings.answer import Section
from patchkit.findings.report import Report
from patchkit.plan.answer import place, states, strangers
from patchkit.verify.result import Outcome

if TYPE_CHECKING:
    from patchkit.verify.result import Verdict


def answer(verdict: Verdict) -> dict[str, Any]:
    """Return the JSON answer: the tree and the patches as ``status --json`` has them, and every check."""
    checks = [replace(result, seconds=round(result.seconds, 3)) for result in verdict.results]
    return {
        **place(verdict.subject.tree),
        **states(verdict.subject.tree, verdict.statuses),
        **strangers(verdict.subject.unknown),
        "passed": verdict.passed,
        "seconds": round(verdict.seconds, 3),
        "checks": msgspec.to_builtins(checks),
    }


def sections(verdict: Verdict) -> tuple[Section, ...]:
    """Return a section a check."""
    return tuple(
        Section(
            f"patchkit verify {result.check}",
            result.title,
            Report(result.findings, 0, result.seconds, notes=result.notes),
            result.summary if result.outcome is Outcome.SKIPPED else "",
        )
        for result in verdict.results
    )
