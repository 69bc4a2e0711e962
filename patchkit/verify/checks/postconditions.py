"""Check that every edit of the applied patches is in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.findings.rule import Rule
from patchkit.plan.fitting import lacking
from patchkit.plan.status import IN_PLACE, State
from patchkit.transaction.conflicts import UNRECORDED, recording, with_unrecorded
from patchkit.transaction.edited import accepting, difference, with_edited
from patchkit.verify.check import CheckOutcome, register, violation
from patchkit.verify.checks.compiling import COMPILE, OBSTACLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from patchkit.findings.finding import Finding
    from patchkit.plan.status import EditStatus, PatchStatus
    from patchkit.verify.subject import Subject

PENDING = Rule("PV201", "patch-pending", "no patch is applied, or not one that an applied patch requires")
EDIT = Rule("PV202", "edit-missing", "an edit of an applied patch is missing")
CONFLICT = Rule("PV203", "edit-conflict", "the code around an edit differs from what the patch describes")
_LOST = frozenset({State.EDITED, State.PENDING, State.CONFLICT})


@register("postconditions", "Every edit is in place", PENDING, EDIT, CONFLICT, order=30, of_patches=True)
def check(subject: Subject) -> CheckOutcome:
    """Check the edits of each applied patch; other patches become notes."""
    try:
        statuses = with_unrecorded(with_edited(subject.tree, subject.statuses), subject.unrecorded)
    except TreeError as error:
        return CheckOutcome(str(error), (_unreadable(error),), obstacle=OBSTACLE)
    conflicting = {status.patch.id for status in statuses if status.state is State.CONFLICT}
    lacks = lacking(statuses)
    findings: list[Finding] = []
    notes = []
    waiting: list[str] = []
    present = 0
    patched = False
    for status in statuses:
        if status.state is State.NOT_APPLICABLE:
            notes.append(f"{status.patch.id} does not apply to this tree: {status.reason}")
        elif status.state in IN_PLACE:
            present += 1
            # An opt-in patch that upstream has does not make the tree a patched one.
            patched |= status.state is State.APPLIED or status.patch.default
            findings += _required(status.patch.id, lacks.get(status.patch.id, []))
        elif status.state is State.EDITED or _expected(subject, status):
            findings += _missing(subject, status)
        elif status.patch.default:
            name = status.patch.id
            is_there = any(edit.state in IN_PLACE for edit in status.edits)
            if status.state is State.PENDING and not is_there:
                waiting.append(name)
                continue
            without = f"; it is {status.reason}, and can fail" if status.state is State.PENDING else ""
            condition, command = (
                ("conflicts with this tree", "diff")
                if status.state is State.CONFLICT
                else (f"is {status.state.value}", "apply")
            )
            notes.append(f"{name} {condition}{without}: patchkit {command} {name}")
    if waiting:
        number = f"{len(waiting)} patches are" if len(waiting) > 1 else "1 patch is"
        notes.append(f"{number} pending: patchkit apply {' '.join(waiting)}")
    notes += [
        f"{name} is applied, but its patch folder is not loaded: name the folder with --patches DIR"
        for name in subject.unknown
    ]
    for patch, edit, _ in subject.unrecorded:
        if patch not in conflicting:
            notes.append(f"{patch} {edit}: {UNRECORDED}: {recording(patch, edit)}")
    obstacle = ""
    pending = [
        status.patch.id
        for status in statuses
        if status.patch.default and status.state not in {State.NOT_APPLICABLE, *IN_PLACE}
    ]
    if not findings and not patched and (pending or not present):
        obstacle = "no patch is applied"
        fits = [name for name in pending if name not in conflicting]
        could = f"{', '.join(fits)} can be applied" if fits else "and none applies to this tree"
        message = f"no patch is applied; {could}"
        notes = [note for note in notes if "patchkit apply" not in note]
        remedy = "patchkit apply" if fits else "run patchkit status to see why"
        findings.append(violation(PENDING, "__init__.py", 1, message, remedy))
    edits = sum(edit.state in IN_PLACE for status in statuses for edit in status.edits)
    summary = f"{present} of {len(statuses)} patches, {edits} edits"
    return CheckOutcome(summary, tuple(findings), tuple(notes), obstacle=obstacle)


def _expected(subject: Subject, status: PatchStatus) -> bool:
    """Return whether the tree has at least some of a part of the patch, not only of a similar patch."""
    if status.state is State.CONFLICT and any(patch == status.patch.id for patch, _, _ in subject.unrecorded):
        return True
    # A fork that leaves a patch out may have made some of its changes itself, and so may one that did not choose it.
    if status.patch.upstream_when and status.patch.default and not status.patch.left_out:
        there = {status.patch.part_of(edit.name).name for edit in status.edits if edit.state in IN_PLACE}
        lost = {status.patch.part_of(edit.name).name for edit in status.edits if edit.state in _LOST}
        return not there.isdisjoint(lost) or status.state is State.PARTIAL
    is_commented = status.patch.id in subject.commenting_patches
    return any(edit.state is State.APPLIED and (is_commented or edit.calls_runtime) for edit in status.edits)


def _required(patch: str, absent: list[str]) -> Iterator[Finding]:
    """Yield what git leaves where it picks an applied patch without one that it requires, or reverts that one."""
    if absent:
        message = f"{patch} is applied without {', '.join(absent)}, which it requires"
        remedy = f"patchkit apply {' '.join(absent)}, or patchkit revert {patch}"
        yield violation(PENDING, "__init__.py", 1, message, remedy)


def _missing(subject: Subject, status: PatchStatus) -> Iterator[Finding]:
    lost = [edit for edit in status.edits if edit.state in _LOST]
    for edit in lost:
        yield _lost(subject, status, edit)
    if not lost:
        message = f"{status.patch.id}: {status.reason or status.state.value}"
        yield violation(CONFLICT, "__init__.py", 1, message, "run patchkit status for details")


def _lost(subject: Subject, status: PatchStatus, edit: EditStatus) -> Finding:
    if edit.state is State.EDITED:
        return violation(
            EDIT,
            edit.file,
            subject.line(edit.file, edit.site),
            f"{status.patch.id}: {edit.name} is not in place as it was written: a person changed it",
            edit.reason,
            function=edit.site,
            expression=edit.difference,
        )
    conflict = edit.state is State.CONFLICT
    before = subject.as_written
    written = before.tree.read(edit.file) if before is not None else None
    changed = difference(subject.originals.get(edit.file), written, subject.tree.read(edit.file))
    if changed:
        why, remedy = (
            edit.reason or "a person changed it",
            accepting(status.patch, edit.name),
        )
    elif conflict:
        why, remedy = edit.reason, f"patchkit diff {status.patch.id} shows what was expected"
    else:
        why, remedy = "the code is as it was before the patch", f"patchkit apply {status.patch.id}"
    if conflict and (status.patch.id, edit.name, edit.file) in subject.unrecorded:
        why, remedy = UNRECORDED, recording(status.patch.id, edit.name)
    return violation(
        CONFLICT if conflict else EDIT,
        edit.file,
        subject.line(edit.file, edit.site),
        f"{status.patch.id}: {edit.name} is not in place: {why}",
        remedy,
        function=edit.site,
        expression=changed,
    )


def _unreadable(error: TreeError) -> Finding:
    file, _, rest = str(error).partition(":")
    line = rest.partition(":")[0]
    return violation(COMPILE, file, int(line) if line.isdigit() else 1, str(error), "fix the syntax error")
