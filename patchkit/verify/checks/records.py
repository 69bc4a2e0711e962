"""Check that the original contents are available: objects of the ledger are intact, or git's history has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.plural import counted
from patchkit.findings.rule import Rule
from patchkit.transaction.ledger import FOLDER
from patchkit.verify.check import CheckOutcome, register, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.findings.finding import Finding
    from patchkit.verify.subject import Subject

LEDGER = Rule("PV501", "ledger-damaged", "the ledger is damaged")
_FILE = f"{FOLDER}/ledger.json"
_RESTORE = "restore the folder from a copy, or restore the tree with git and apply again"


@register("ledger", "Original contents are available", LEDGER, order=20, of_patches=True, always=True)
def check(subject: Subject) -> CheckOutcome:
    """Check what a revert needs: intact contents in the ledger, or git's history."""
    if subject.ledger_error is not None:
        unreadable = violation(LEDGER, _FILE, 1, subject.ledger_error.what, subject.ledger_error.advice)
        return CheckOutcome("unreadable", (unreadable,))
    findings = (*_lost(subject), *_inconsistent(subject))
    if findings:
        return CheckOutcome("damaged", findings)
    if subject.originals_error is not None:
        return CheckOutcome(str(subject.originals_error), skipped=True)
    if not subject.originals:
        return CheckOutcome("no patch is in the tree", skipped=True)
    return CheckOutcome(counted(len(subject.originals), "file"))


def _lost(subject: Subject) -> Iterator[Finding]:
    for digest in sorted(subject.ledger.contents):
        if not subject.store.has(digest):
            message = f"{FOLDER}/objects/{digest[:12]}… is missing or damaged, so revert cannot restore it"
            yield violation(LEDGER, _FILE, subject.store.line(digest), message, _RESTORE)


def _inconsistent(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each file and patch that a layer of the ledger names in only one of its lists."""
    for layer in (layer for record in subject.ledger.records for layer in record.layers):
        made = {edit.file for patch in layer.patches for edit in patch.edits}
        listed = {name for file in layer.files.values() for name in file.patches}
        names = sorted((made - layer.files.keys()) | (listed - {patch.id for patch in layer.patches}))
        for name in names:
            message = f"the ledger is inconsistent about {name}: an entry was added or removed"
            yield violation(LEDGER, _FILE, subject.store.line(name), message, _RESTORE)
