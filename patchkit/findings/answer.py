"""The findings of one command, in sections, as output formats take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.findings.finding import Finding, Suppressed
    from patchkit.findings.report import Report
    from patchkit.findings.rule import Rule


@dataclass(frozen=True)
class Section:
    """The findings of one check; ``title`` states what is true if it passes, ``left_out`` why it did not run."""

    name: str
    title: str
    report: Report
    left_out: str = ""


@dataclass(frozen=True)
class SectionedReport:
    """The sections of one command's findings, in order, and the rules that they refer to.

    ``prefix`` is the path from the root of the repository to the package folder (``python/sglang/``).
    """

    tool: str
    sections: tuple[Section, ...]
    rules: Mapping[str, Rule]
    prefix: str = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all sections."""
        return tuple(finding for section in self.sections for finding in section.report.findings)

    @property
    def known(self) -> tuple[Finding, ...]:
        """The findings that a baseline lets pass."""
        return tuple(finding for section in self.sections for finding in section.report.known)

    @property
    def suppressed(self) -> tuple[Suppressed, ...]:
        """The findings that comments suppress."""
        return tuple(finding for section in self.sections for finding in section.report.suppressed)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all sections, prefixed with the section's title if there are several sections."""
        several = len(self.sections) > 1
        return tuple(
            f"{section.title}: {note}" if several else note
            for section in self.sections
            for note in section.report.notes
        )
