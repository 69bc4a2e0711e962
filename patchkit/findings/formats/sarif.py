"""Write a report as SARIF 2.1.0 that code scanning loads, with paths, suppressions and baseline."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from patchkit import __version__
from patchkit.audit.rules import RULES
from patchkit.findings.finding import Confidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.findings.finding import Finding
    from patchkit.findings.report import Report
    from patchkit.findings.rule import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Confidence.CERTAIN: "error", Confidence.LIKELY: "warning", Confidence.POSSIBLE: "note"}
_RANKS = {Confidence.CERTAIN: 95.0, Confidence.LIKELY: 70.0, Confidence.POSSIBLE: 30.0}


def log(
    report: Report, prefix: str = "", tool: str = "patchkit audit", rules: Mapping[str, Rule] = RULES
) -> dict[str, Any]:
    """Return the SARIF log of ``tool`` as plain data.

    ``prefix`` leads from the root of the repository, against which code scanning resolves locations, to the
    package folder (``python/sglang/``); ``rules`` are those that the findings are about.
    """
    ids = sorted(rules)
    results = [_result(finding, ids, prefix) for finding in report.findings]
    for finding in report.known:
        results.append({**_result(finding, ids, prefix), "baselineState": "unchanged"})
    for entry in report.suppressed:
        suppression = {"kind": "inSource", "justification": entry.reason}
        results.append({**_result(entry.finding, ids, prefix), "suppressions": [suppression]})
    driver = {
        "name": tool,
        "version": __version__,
        "rules": [
            {
                "id": rule,
                "name": rules[rule].name,
                "shortDescription": {"text": rules[rule].summary},
                "defaultConfiguration": {"level": "error" if rules[rule].fatal else "warning"},
            }
            for rule in ids
        ],
    }
    notes = [{"level": "note", "message": {"text": note}} for note in report.notes]
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, ids: list[str], prefix: str) -> dict[str, Any]:
    digest = hashlib.sha256("\0".join(finding.fingerprint).encode()).hexdigest()
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": ids.index(finding.rule),
        "level": _LEVELS[finding.confidence],
        "rank": _RANKS[finding.confidence],
        "message": {"text": f"{finding.message}. {finding.guard[:1].upper()}{finding.guard[1:]}."},
        "locations": [
            {
                **_location(finding.file, finding.line, prefix),
                "logicalLocations": [{"fullyQualifiedName": finding.function, "kind": "function"}],
            }
        ],
        "partialFingerprints": {"patchkitAudit/v1": digest},
    }
    if finding.path:
        steps = [
            {"location": {**_location(step.file, step.line, prefix), "message": {"text": step.text}}}
            for step in finding.path
        ]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return result


def _location(file: str, line: int, prefix: str) -> dict[str, Any]:
    artifact = {"uri": f"{prefix}{file}", "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}
