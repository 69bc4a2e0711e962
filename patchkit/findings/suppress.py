"""Suppress findings by a comment ``# patchkit: mirror-present (why)``; the reason is required."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from patchkit.findings.finding import Finding, Suppressed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_COMMENT = re.compile(r"#\s*patchkit:\s*mirror-present\b\s*(?:\((?P<reason>[^)]*\S[^)]*)\))?")


def split(
    findings: Iterable[Finding], lines: Mapping[str, Sequence[str]]
) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...], tuple[str, ...]]:
    """Separate the findings that a comment suppresses; the notes list comments without a reason.

    The comment is on the finding's line, or alone on the line above; ``lines`` has each file's source lines.
    """
    reported: list[Finding] = []
    suppressed: list[Suppressed] = []
    notes: list[str] = []
    for finding in findings:
        comment = _comment_at(lines[finding.file], finding.line)
        reason = comment and comment.group("reason")
        if reason:
            suppressed.append(Suppressed(**asdict(finding), reason=reason.strip()))
            continue
        if comment:
            notes.append(
                f"{finding.file}:{finding.line}: a suppression needs a reason: "
                "write `# patchkit: mirror-present (why)`"
            )
        reported.append(finding)
    return tuple(reported), tuple(suppressed), tuple(notes)


def _comment_at(lines: Sequence[str], line: int) -> re.Match[str] | None:
    comment = _COMMENT.search(lines[line - 1]) if line <= len(lines) else None
    if comment is None and line >= 2 and lines[line - 2].lstrip().startswith("#"):
        comment = _COMMENT.search(lines[line - 2])
    return comment
