"""The checks in order, cheap first; one that would judge what an earlier one found broken is left out."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit import collector
from patchkit.errors import TreeError
from patchkit.verify import checks
from patchkit.verify.check import Check, Found, registered
from patchkit.verify.result import Outcome, Result, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.findings.finding import Finding
    from patchkit.findings.rule import Rule
    from patchkit.verify.subject import Subject


def all_checks() -> tuple[Check, ...]:
    """Return the check of each module of the folder of checks, in order."""
    for module in pkgutil.iter_modules(checks.__path__):
        importlib.import_module(f"{checks.__name__}.{module.name}")
    return registered()


def rules() -> dict[str, Rule]:
    """Return the rules of all checks by their ids."""
    return {rule.id: rule for check in all_checks() for rule in check.rules}


@collector.paused()
def verify(subject: Subject, watch: Callable[[str, int], None] | None = None) -> Verdict:
    """Make every check; ``watch`` is told each one's title before it is made, and of how many it is one."""
    chosen = [check for check in all_checks() if subject.terms.importing or not check.runs_code]
    results: list[Result] = []
    obstacle = ""
    for check in chosen:
        if watch is not None:
            watch(check.title, len(chosen))
        if obstacle and not check.always:
            results.append(Result(check.name, check.title, Outcome.SKIPPED, f"left out: {obstacle}"))
            continue
        result, stops = _made(check, subject)
        results.append(result)
        obstacle = obstacle or stops
    try:
        statuses = subject.statuses
    except TreeError:
        statuses = ()
    return Verdict(subject, tuple(results), statuses)


def _made(check: Check, subject: Subject) -> tuple[Result, str]:
    started = time.perf_counter()
    found = check.make(subject)
    if found.findings and not check.of_patches:
        found = _new(check, subject, found)
    outcome = Outcome.FAILED if found.findings else Outcome.SKIPPED if found.skipped else Outcome.PASSED
    seconds = time.perf_counter() - started
    result = Result(check.name, check.title, outcome, found.summary, found.findings, found.notes, seconds)
    return result, found.obstacle


def _new(check: Check, subject: Subject, found: Found) -> Found:
    """Return what a check found with a note instead of each finding that the tree had before any patch.

    What a patch of the tree had mended, and somebody broke again, stays a finding.
    """
    if subject.before is None or subject.left is None:
        return found
    earlier = Counter(map(_said, check.make(subject.before).findings))
    if subject.left is not subject:
        earlier &= Counter(map(_said, check.make(subject.left).findings))
    new: list[Finding] = []
    notes: list[str] = []
    for finding in found.findings:
        if earlier[_said(finding)] > 0:
            earlier[_said(finding)] -= 1
            notes.append(f"was there before: {finding.file}:{finding.line} {finding.message}")
        else:
            new.append(finding)
    return replace(found, findings=tuple(new), notes=(*found.notes, *notes))


def _said(finding: Finding) -> tuple[str, ...]:
    return (*finding.fingerprint, finding.message)
