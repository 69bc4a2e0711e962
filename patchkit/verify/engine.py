"""Run the checks in order, cheap ones first; after an obstacle, skip the checks that depend on it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as replaced

from patchkit import memory
from patchkit.errors import TreeError
from patchkit.findings.report import new_and_earlier
from patchkit.verify import checks
from patchkit.verify.check import Check, CheckOutcome, registered
from patchkit.verify.result import CheckState, Result, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.findings.finding import Finding
    from patchkit.findings.rule import Rule
    from patchkit.verify.subject import Subject


def all_checks() -> tuple[Check, ...]:
    """Return the check of each module in ``patchkit.verify.checks``, in order."""
    for module in pkgutil.iter_modules(checks.__path__):
        importlib.import_module(f"{checks.__name__}.{module.name}")
    return registered()


def rules() -> dict[str, Rule]:
    """Return the rules of all checks by their ids."""
    return {rule.id: rule for check in all_checks() for rule in check.rules}


@memory.collector_paused()
def verify(subject: Subject, watch: Callable[[str, int, int], None] | None = None) -> Verdict:
    """Run every check; call ``watch`` with each check's title, the number of checks before it, and that of all."""
    chosen = [check for check in all_checks() if subject.criteria.importing or not check.runs_code]
    results: list[Result] = []
    obstacle = ""
    for number, check in enumerate(chosen):
        if watch is not None:
            watch(f"checks: {check.title}", number, len(chosen))
        if obstacle and not check.always:
            results.append(Result(check.name, check.title, CheckState.SKIPPED, f"not run: {obstacle}"))
            continue
        result, stops = _run(check, subject)
        results.append(result)
        obstacle = obstacle or stops
    try:
        statuses = subject.statuses
    except TreeError:
        statuses = ()
    return Verdict(subject, tuple(results), statuses)


def _run(check: Check, subject: Subject) -> tuple[Result, str]:
    started = time.perf_counter()
    made = check.make(subject)
    if made.findings and not (check.of_patches or made.obstacle):
        made = _with_only_new(check, subject, made)
    outcome = (
        CheckState.FAILED if made.findings else CheckState.SKIPPED if made.skipped else CheckState.PASSED
    )
    seconds = round(time.perf_counter() - started, 3)
    result = Result(check.name, check.title, outcome, made.summary, made.findings, made.notes, seconds)
    return result, made.obstacle


def _with_only_new(check: Check, subject: Subject, outcome: CheckOutcome) -> CheckOutcome:
    """Return the result of a check with findings that the unpatched tree has, too, as notes.

    A finding that the patches fixed and a later change reintroduced stays a finding. In a shallow clone, whose
    unpatched tree is unknown, each finding says that it may be one of that tree.
    """
    if subject.lacks_history:
        findings = (replaced(finding, guard=f"{finding.guard}; {_UNKNOWN}") for finding in outcome.findings)
        return replace(outcome, findings=tuple(findings))
    if subject.before is None or subject.as_written is None:
        return outcome
    earlier = Counter(map(_identity, check.make(subject.before).findings))
    if subject.as_written is not subject:
        earlier &= Counter(map(_identity, check.make(subject.as_written).findings))
    new, predating = new_and_earlier(outcome.findings, earlier, _identity)
    notes = (
        f"predates the patches: {finding.file}:{finding.line} {finding.message}" for finding in predating
    )
    return replace(outcome, findings=tuple(new), notes=(*outcome.notes, *notes))


_UNKNOWN = "it may predate the patches; history is missing: git fetch --unshallow"
_LINE = re.compile(r"(?<=\.py):\d+\b")


def _identity(finding: Finding) -> tuple[str, ...]:
    # A message may name a line, which edits above it move.
    return (*finding.fingerprint, _LINE.sub("", finding.message))
