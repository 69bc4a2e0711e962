"""Check that the original contents are available: the record is intact, and its contents are stored or in git."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.plural import counted
from patchkit.findings.rule import Rule
from patchkit.tree.fork import RECORD
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from patchkit.verify.subject import Subject

DAMAGED = Rule("PV501", "record-damaged", "the record is damaged")
_RESTORE = "restore them from a copy, or restore the tree with git and apply again"


@register("record", "Original contents are available", DAMAGED, order=20, of_patches=True, always=True)
def check(subject: Subject) -> CheckOutcome:
    """Check what a revert needs: intact contents of the record, or git's history."""
    error = subject.record_error
    if error is not None:
        return CheckOutcome("unreadable", (violation(DAMAGED, RECORD, 1, error.what, error.advice),))
    findings = tuple(
        violation(
            DAMAGED,
            RECORD,
            1,
            f"the content {digest[:12]} is missing or damaged, so revert cannot restore it",
            _RESTORE,
        )
        for digest in sorted(subject.lost)
    )
    if findings:
        return CheckOutcome("damaged", findings)
    if subject.originals_error is not None:
        return CheckOutcome(str(subject.originals_error), skipped=True)
    if not subject.originals:
        return CheckOutcome("no patch is in the tree", skipped=True)
    return CheckOutcome(counted(len(subject.originals), "file"))
