"""What stood before the patches is known: what the ledger keeps is whole, or git's history has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.findings.rule import Rule
from patchkit.transaction.ledger import FOLDER
from patchkit.verify.check import Found, broken, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.findings.finding import Finding
    from patchkit.verify.subject import Subject

LEDGER = Rule("PV501", "ledger-damaged", "the ledger is damaged")
_FILE = f"{FOLDER}/ledger.json"
_RESTORE = "restore the folder from a copy, or put the tree back with git and apply again"


@register("ledger", "What stood before the patches is known", LEDGER, order=20, of_patches=True, always=True)
def check(subject: Subject) -> Found:
    """Look for what a revert would take: whole contents in the ledger, or git's history."""
    if subject.ledger_error is not None:
        unreadable = broken(LEDGER, _FILE, 1, str(subject.ledger_error), _RESTORE)
        return Found("unreadable", (unreadable,))
    findings = (*_lost(subject), *_at_odds(subject))
    if findings:
        return Found("damaged", findings)
    if subject.originals_error is not None:
        return Found(str(subject.originals_error), skipped=True)
    if not subject.originals:
        return Found("no patch is in the tree", skipped=True)
    return Found(f"{len(subject.originals)} files")


def _lost(subject: Subject) -> Iterator[Finding]:
    for digest in sorted(subject.ledger.contents):
        if not subject.store.holds(digest):
            message = f"the ledger keeps no whole {FOLDER}/objects/{digest[:12]}…, so revert cannot take it"
            yield broken(LEDGER, _FILE, subject.store.line(digest), message, _RESTORE)


def _at_odds(subject: Subject) -> Iterator[Finding]:
    """Find files that a layer's patches name and the layer does not, and patches the other way round."""
    for layer in (layer for record in subject.ledger.records for layer in record.layers):
        made = {edit.file for patch in layer.patches for edit in patch.edits}
        listed = {name for file in layer.files.values() for name in file.patches}
        names = sorted((made - layer.files.keys()) | (listed - {patch.id for patch in layer.patches}))
        for name in names:
            message = f"the ledger contradicts itself about {name}: an entry was taken out or added"
            yield broken(LEDGER, _FILE, subject.store.line(name), message, _RESTORE)
