"""The checks in order, cheap first; one that would judge what an earlier one found broken is left out."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.audit.engine import audit_cached
from patchkit.errors import TreeError
from patchkit.verify import rules
from patchkit.verify.checks import (
    compiling,
    hooks,
    imports,
    loading,
    mirror,
    postconditions,
    records,
    signatures,
    slots,
)
from patchkit.verify.result import Outcome, Result, Verdict
from patchkit.verify.runtime import runtime_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.findings.finding import Confidence, Finding
    from patchkit.verify.subject import Subject


@dataclass(frozen=True)
class Terms:
    """What the audit has to meet, and whether patched modules are imported as well."""

    confidence: Confidence
    baseline: Sequence[Finding] = ()
    importing: bool = False


def verify(subject: Subject, terms: Terms, watch: Callable[[str, int], None] | None = None) -> Verdict:
    """Make every check; ``watch`` is told each one's title before it is made, and of how many it is one."""
    runtime = runtime_of(subject.tree)
    checks: list[tuple[str, str, Callable[[], Result]]] = [
        (compiling.CHECK, compiling.TITLE, lambda: compiling.check(subject)),
        (records.CHECK, records.TITLE, lambda: records.check(subject)),
        (postconditions.CHECK, postconditions.TITLE, lambda: postconditions.check(subject)),
        (imports.CHECK, imports.TITLE, lambda: imports.check(subject, runtime)),
        (slots.CHECK, slots.TITLE, lambda: slots.check(subject)),
        (hooks.CHECK, hooks.TITLE, lambda: hooks.check(subject)),
        (signatures.CHECK, signatures.TITLE, lambda: signatures.check(subject, runtime)),
        (
            mirror.CHECK,
            mirror.TITLE,
            lambda: mirror.check(audit_cached(subject.tree), terms.confidence, terms.baseline),
        ),
    ]
    if terms.importing:
        checks.append((loading.CHECK, loading.TITLE, lambda: loading.check(subject)))
    results: list[Result] = []
    for name, title, check in checks:
        if watch is not None:
            watch(title, len(checks))
        reason = "" if name == records.CHECK else _obstacle(results)
        if reason:
            results.append(Result(name, title, Outcome.SKIPPED, reason))
            continue
        started = time.perf_counter()
        results.append(replace(check(), seconds=time.perf_counter() - started))
    try:
        statuses = subject.statuses
    except TreeError:
        statuses = ()
    return Verdict(tuple(results), statuses)


def _obstacle(results: Sequence[Result]) -> str:
    """Say what keeps the next check from being made; empty if nothing does."""
    found = {finding.rule for result in results for finding in result.findings}
    if rules.COMPILE.id in found:
        return "left out: a file does not compile"
    return "left out: no patch is in the tree" if rules.PENDING.id in found else ""
