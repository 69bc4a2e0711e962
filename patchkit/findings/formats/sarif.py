"""SARIF 2.1.0 that code scanning loads, with paths, suppressions and baseline."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from patchkit import __version__
from patchkit.findings.finding import Confidence

if TYPE_CHECKING:
    from patchkit.findings.answer import SectionedReport
    from patchkit.findings.finding import Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Confidence.CERTAIN: "error", Confidence.LIKELY: "warning", Confidence.POSSIBLE: "note"}
_RANKS = {Confidence.CERTAIN: 95.0, Confidence.LIKELY: 70.0, Confidence.POSSIBLE: 30.0}


# An escaped backslash, the two halves of one character, or half a character, as JSON in ASCII has them.
_ESCAPES = re.compile(r"\\\\|\\ud[89ab]..\\ud[c-f]..|\\(ud[89a-f]..)")


def document(answer: SectionedReport) -> str:
    """Return the log; its locations start at the repository's root, against which code scanning resolves them."""
    ids = sorted(answer.rules)
    results = [_result(finding, ids, answer.prefix) for finding in answer.findings]
    for finding in answer.known:
        results.append({**_result(finding, ids, answer.prefix), "baselineState": "unchanged"})
    for suppressed in answer.suppressed:
        suppression = {"kind": "inSource", "justification": suppressed.reason}
        results.append({**_result(suppressed, ids, answer.prefix), "suppressions": [suppression]})
    rules = [answer.rules[name] for name in ids]
    driver = {
        "name": answer.tool,
        "version": __version__,
        "rules": [
            {
                "id": rule.id,
                "name": rule.name,
                "shortDescription": {"text": rule.summary},
                "defaultConfiguration": {"level": "error" if rule.fatal else "warning"},
            }
            for rule in rules
        ],
    }
    notes = [{"level": "note", "message": {"text": note}} for note in answer.notes]
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
    }
    return _in_unicode({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _in_unicode(log: dict[str, Any]) -> str:
    """Return a log as JSON; half characters, as in a name that is not UTF-8, are spelled, since parsers refuse them."""
    text = json.dumps(log, indent=2)
    return _ESCAPES.sub(lambda match: f"\\\\{match[1]}" if match[1] else match[0], text)


def _result(finding: Finding, ids: list[str], prefix: str) -> dict[str, Any]:
    digest = hashlib.sha256("\0".join(finding.fingerprint).encode(errors="backslashreplace")).hexdigest()
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
    artifact = {"uri": quote(os.fsencode(f"{prefix}{file}")), "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line}}}
