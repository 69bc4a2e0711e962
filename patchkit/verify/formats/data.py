"""A verdict as plain data: the JSON answer, one report of all findings, and a test suite a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.findings.formats import junit
from patchkit.findings.report import Report
from patchkit.plan.answer import place, states
from patchkit.verify.result import Outcome

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Verdict


def answer(verdict: Verdict, tree: CheckoutTree) -> dict[str, Any]:
    """Return the JSON answer: the tree and the patches as ``status --json`` has them, and every check."""
    return {
        **place(tree),
        **states(verdict.statuses),
        "passed": verdict.passed,
        "seconds": round(verdict.seconds, 3),
        "checks": [result.as_json() for result in verdict.results],
    }


def report(verdict: Verdict) -> Report:
    """Return every finding and note as one report."""
    notes = (f"{result.title}: {note}" for result in verdict.results for note in result.notes)
    return Report(verdict.findings, 0, verdict.seconds, notes=tuple(notes))


def suites(verdict: Verdict) -> list[Element]:
    """Return a test suite a check, in which a check that was left out is skipped."""
    return [
        junit.suite(
            f"patchkit verify {result.check}",
            Report(result.findings, 0, result.seconds),
            result.title,
            result.summary if result.outcome is Outcome.SKIPPED else "",
        )
        for result in verdict.results
    ]
