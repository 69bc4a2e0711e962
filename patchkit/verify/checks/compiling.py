"""Check that every patched file compiles; no code is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.plural import counted
from patchkit.findings.rule import Rule
from patchkit.tree.source import fault_of
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from patchkit.findings.finding import Finding
    from patchkit.verify.subject import Subject

OBSTACLE = "a file does not compile"
COMPILE = Rule("PV101", "does-not-compile", "a file that patches change is not valid Python")


@register("compile", "Changed files compile", COMPILE, order=10, of_patches=True)
def check(subject: Subject) -> CheckOutcome:
    """Compile every changed file."""
    files = changed_files(subject)
    findings = tuple(finding for file in files if (finding := finding_of(file, subject.sources[file])))
    return CheckOutcome(counted(len(files), "file"), findings, obstacle=OBSTACLE if findings else "")


def changed_files(subject: Subject) -> list[str]:
    """Return the files with edits of patches, those with a patch's comment, and the vendored runtime's."""
    named = {file for patch in subject.patches for edit in patch.edits for file in edit.files}
    return sorted(subject.marked_files.union(named & subject.sources.keys()))


def finding_of(file: str, source: bytes) -> Finding | None:
    """Return the finding that a file does not compile, None if it does."""
    fault = fault_of(source)
    return (
        None
        if fault is None
        else violation(COMPILE, file, fault.line, f"not valid Python: {fault.reason}", fault.advice)
    )
