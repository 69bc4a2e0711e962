"""Workflow commands, which GitHub shows beside the lines that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.printable import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.findings.answer import SectionedReport


def document(answer: SectionedReport) -> str:
    """Return one command a finding, an error since it fails the command, and one a note."""
    return "\n".join(_commands(answer))


def _commands(answer: SectionedReport) -> Iterator[str]:
    for finding in answer.findings:
        properties = ",".join(
            [
                f"file={_property(answer.prefix + finding.file)}",
                f"line={finding.line}",
                f"title={_property(f'{finding.rule} {finding.function}')}",
            ]
        )
        text = _data(f"{finding.message} ({finding.confidence.value}); {finding.guard}")
        yield f"::error {properties}::{text}"
    for note in answer.notes:
        yield f"::notice::{_data(note)}"


def _data(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
