"""Write one self-contained HTML page: the checks, and each patch with its state, reason and changes."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from patchkit import __version__
from patchkit.findings.printable import page_template
from patchkit.lines import decoded_lines
from patchkit.plan.build import make_plan
from patchkit.plan.status import State
from patchkit.tree.git import git
from patchkit.tree.tree import OverlayTree
from patchkit.verify.result import CheckState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from patchkit.plan.status import FileChange, PatchStatus
    from patchkit.verify.result import Verdict
    from patchkit.verify.subject import Subject

_CONTEXT = 3


@dataclass(frozen=True)
class _Cell:
    number: int
    text: str


@dataclass(frozen=True)
class _Row:
    kind: str
    before: _Cell | None
    after: _Cell | None


def document(verdict: Verdict) -> str:
    """Return the page; text from the tree and from patches is escaped."""
    subject = verdict.subject
    changes = _changes(subject, verdict.statuses)
    return page_template(__package__).render(
        version=subject.tree.version or "version unknown",
        package=subject.tree.package,
        commit=_commit(subject.tree.root),
        date=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        results=verdict.results,
        failed=[result.check for result in verdict.results if result.outcome is CheckState.FAILED],
        made=sum(result.outcome is not CheckState.SKIPPED for result in verdict.results),
        patches=[
            (status, [(change.file, list(_rows(change))) for change in changes.get(status.patch.id, ())])
            for status in verdict.statuses
        ],
        patchkit=__version__,
        seconds=verdict.seconds,
    )


def _commit(root: Path) -> str:
    """Return the commit of a checkout, abbreviated; an empty string for a tree that is not a checkout."""
    if not (root / ".git").exists():
        return ""
    return git(root, "rev-parse", "--verify", "--short=12", "HEAD").stdout.decode().strip()


def _changes(subject: Subject, statuses: Sequence[PatchStatus]) -> dict[str, tuple[FileChange, ...]]:
    """Return what each patch changed or would change, planned again from the original contents."""
    before = subject.before
    contents = {} if before is None else {file: before.tree.read(file) for file in subject.files}
    applied = subject.commenting_patches if before is not None else frozenset[str]()
    changes = {}
    for status in statuses:
        if status.patch.id in applied or status.state in {State.PENDING, State.PARTIAL}:
            planned = make_plan(OverlayTree(subject.tree, contents), (status.patch,))
            changes[status.patch.id] = planned.changes
            contents |= {change.file: change.after for change in planned.changes}
    return changes


def _rows(change: FileChange) -> Iterator[_Row | None]:
    """Yield the rows of a side-by-side diff, None between two places of the file."""
    old, new = (decoded_lines(text or b"") for text in (change.before, change.after))
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT)
    for place, group in enumerate(groups):
        if place:
            yield None
        for tag, i1, i2, j1, j2 in group:
            for offset in range(max(i2 - i1, j2 - j1)):
                kind = "same" if tag == "equal" else "changed"
                yield _Row(kind, _cell(old, i1 + offset, i2), _cell(new, j1 + offset, j2))


def _cell(lines: Sequence[str], index: int, end: int) -> _Cell | None:
    return _Cell(index + 1, lines[index]) if index < end else None
