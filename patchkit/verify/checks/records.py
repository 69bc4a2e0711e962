"""The ledger agrees with the bytes: what it says patchkit left is what stands, and what it keeps is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.findings.rule import Rule
from patchkit.transaction.ledger import FOLDER
from patchkit.transaction.outline import same_meaning
from patchkit.transaction.swap import digest_of
from patchkit.verify.check import Found, broken, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.findings.finding import Finding
    from patchkit.verify.subject import Subject

LEDGER = Rule("PV501", "ledger-bytes", "the ledger and the tree's bytes disagree")
_FILE = f"{FOLDER}/ledger.json"
_AGAIN = "put the file back, or take the change in: patchkit revert, then patchkit apply"
_RESTORE = "restore the folder from a copy, or put the tree back with git and apply again"


@register("ledger", "The ledger agrees with the bytes", LEDGER, order=20, of_patches=True, always=True)
def check(subject: Subject) -> Found:
    """Compare the digest of every recorded file and of every content that a revert would take."""
    if subject.ledger_error is not None:
        unreadable = broken(LEDGER, _FILE, 1, str(subject.ledger_error), _RESTORE)
        return Found("unreadable", (unreadable,))
    files = {file for layer in subject.ledger.layers for file in layer.files}
    if not files:
        return Found("the tree has no ledger, so revert is up to git", skipped=True)
    findings = (*_changed(subject, files), *_lost(subject), *_at_odds(subject))
    unrecorded = len(set(subject.signed) - files)
    notes = (f"{unrecorded} files were patched elsewhere: git takes those edits back",) if unrecorded else ()
    return Found(f"{len(files)} files", findings, notes)


def _changed(subject: Subject, files: set[str]) -> Iterator[Finding]:
    for file in sorted(files):
        source = subject.sources.get(file)
        if source is None:
            yield broken(LEDGER, file, 1, "patchkit changed this file, and it is gone", _AGAIN)
        elif not _stands(subject, file, source):
            line = _first_change(subject, file, source)
            yield broken(LEDGER, file, line, "not as patchkit left it: changed since", _AGAIN)


def _stands(subject: Subject, file: str, source: bytes) -> bool:
    """Tell whether a file stands as patchkit left it, its layout aside: a formatter changes nothing."""
    applied = subject.ledger.files[file].applied
    if applied is None or digest_of(source) == applied:
        return applied is not None
    try:
        return same_meaning(source, subject.store.get(applied))
    except TreeError:
        return False


def _first_change(subject: Subject, file: str, source: bytes) -> int:
    """Return the first line that stands otherwise than patchkit left it, 1 where that cannot be told."""
    try:
        left = subject.store.get(subject.ledger.files[file].applied or "").splitlines()
    except TreeError:
        return 1
    now = source.splitlines()
    same = next(
        (at for at, (a, b) in enumerate(zip(now, left, strict=False)) if a != b), min(len(now), len(left))
    )
    return min(same + 1, max(len(now), 1))


def _lost(subject: Subject) -> Iterator[Finding]:
    for digest in sorted(subject.ledger.contents):
        if not subject.store.holds(digest):
            message = f"the ledger keeps no whole {FOLDER}/objects/{digest[:12]}…, so revert cannot take it"
            yield broken(LEDGER, _FILE, subject.store.line(digest), message, _RESTORE)


def _at_odds(subject: Subject) -> Iterator[Finding]:
    """Find files that a layer's patches name and the layer does not, and patches the other way round."""
    for layer in subject.ledger.layers:
        made = {edit.file for patch in layer.patches for edit in patch.edits}
        listed = {name for file in layer.files.values() for name in file.patches}
        names = sorted((made - layer.files.keys()) | (listed - {patch.id for patch in layer.patches}))
        for name in names:
            message = f"the ledger contradicts itself about {name}: an entry was taken out or added"
            yield broken(LEDGER, _FILE, subject.store.line(name), message, _RESTORE)
