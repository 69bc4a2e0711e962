"""Write a plan to a tree completely and record it, or write nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from patchkit.plan.markers import marked_conflicts
from patchkit.plan.record import AppliedEdit, AppliedFile, AppliedPatch, How
from patchkit.plan.status import ACCEPTED, State
from patchkit.transaction.current import current_record
from patchkit.transaction.swap import FileKind, concurrent_change_error, digest_or_none
from patchkit.transaction.uncommitted import uncommitted, uncommitted_error
from patchkit.transaction.write import (
    check_targets,
    locked,
    require_no_pending_write,
    write_all,
)
from patchkit.tree.modes import LINK, PROGRAM
from patchkit.tree.names import is_outside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.plan.markers import MarkedConflict
    from patchkit.plan.record import Record
    from patchkit.plan.status import EditStatus, FileChange, PatchStatus, Plan
    from patchkit.transaction.journal import Kinds
    from patchkit.tree.backends import InheritingBackend
    from patchkit.tree.tree import CheckoutTree, ReadTree


class Transaction:
    """One apply of a plan to a tree on disk; ``ported`` is whether it makes a ported change."""

    def __init__(
        self,
        tree: CheckoutTree,
        *,
        ported: bool = False,
        allow_dirty: bool = False,
    ) -> None:
        self.tree = tree
        self.ported = ported
        self.allow_dirty = allow_dirty

    def check(self, plan: Plan) -> ApplyResult:
        """Return what `commit` would return, with nothing written. Raise TreeError if `commit` would."""
        require_no_pending_write(self.tree)
        self._require_writable(plan, current_record(self.tree))
        return _result(plan)

    def commit(
        self,
        plan: Plan,
        steps: Sequence[Plan] = (),
        read: ReadTree | None = None,
        base: Record | None = None,
        kept: Sequence[bytes] = (),
    ) -> ApplyResult:
        """Write the plan's changes and return the result, or raise TreeError with nothing written.

        ``steps`` are the plans that ``plan`` combines, in order, if each is recorded on its own. ``read`` is the tree
        that the plan was computed from, which must be unchanged. ``base`` is the record before the plan, by default the
        tree's, and ``kept`` are contents that it refers to.
        """
        require_no_pending_write(self.tree)
        if not plan.changes:
            return _result(plan)
        with locked(self.tree) as store:
            # A patch that the plan requires may have been reverted in a file that the plan does not change.
            if read is not None and not read.is_unchanged:
                raise concurrent_change_error(self.tree.package)
            record = current_record(self.tree)
            self._require_writable(plan, record)
            record = record if base is None else base
            others = self._contents_of_ports(record)
            for step in steps or (plan,):
                record = with_plan(record, step, ported=self.ported, others=others)
                others |= {change.file: digest_or_none(change.after) for change in step.changes}
            contents = (
                text for step in steps for change in step.changes for text in (change.before, change.after)
            )
            changes = {change.file: (change.before, change.after) for change in plan.changes}
            texts = [text for text in contents if text is not None]
            write_all(self.tree, store, changes, record, kept=[*texts, *kept], kinds=kinds_of(plan))
        return _result(plan)

    def _contents_of_ports(self, record: Record) -> dict[str, str | None]:
        """Return the digests of the current contents of the files of ported changes."""
        files = {file for layer in record.layers if layer.is_ported for file in layer.files}
        return {file: digest_or_none(self.tree.read(file)) for file in files}

    def _require_writable(self, plan: Plan, record: Record) -> None:
        contents = {change.file: (change.before, change.after) for change in plan.changes}
        targets = check_targets(self.tree, contents, kinds_of(plan))
        if self.allow_dirty:
            return
        files_before = record.files
        others = {
            file: (place, before)
            for file, place in targets.places.items()
            if (before := targets.contents[file][0]) is not None
            and not (file in files_before and files_before[file].applied == digest_or_none(before))
        }
        dirty = uncommitted(self.tree.package, others)
        if dirty:
            advice = "commit or stash them, or pass --allow-dirty"
            raise uncommitted_error(self.tree.package, dirty, advice)


@dataclass(frozen=True)
class ApplyResult:
    """The result of an apply: each patch's state after it, and the files that it changed."""

    patches: tuple[PatchStatus, ...]
    files: tuple[str, ...]
    inheriting: tuple[InheritingBackend, ...] = ()
    """The backend classes that read the mirror and inherit an opt-out that the apply added."""
    marked: tuple[tuple[str, MarkedConflict], ...] = ()
    """The conflict markers that were written, each with its file."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The reason for each patch that was left out because it conflicts."""
    resolved_elsewhere: tuple[tuple[str, str], ...] = ()
    """The conflicts for which a resolution of the same code is recorded, as patch id and edit name."""
    unrecorded: tuple[tuple[str, str], ...] = ()
    """The edits whose conflict markers a person removed and whose code is not recorded yet."""


def recorded(plan: Plan) -> list[FileChange]:
    """Return the changes of a plan that the record has: of contents of files of the package."""
    return [
        change
        for change in plan.changes
        if not (is_outside(change.file) or LINK in change.modes)
        if change.before != change.after or len(set(change.modes)) == 1
    ]


def kinds_of(plan: Plan) -> dict[str, Kinds]:
    """Return the kinds of the links of a plan, and of its files that get another mode, before and after it."""
    of_mode = {LINK: FileKind.LINK, PROGRAM: FileKind.EXECUTABLE}
    kinds: dict[str, Kinds] = {}
    for change in plan.changes:
        before, after = (of_mode.get(mode, FileKind.PLAIN) for mode in change.modes)
        if FileKind.LINK in (before, after) or (before is not after and change.after is not None):
            kinds[change.file] = before, after
    return kinds


def with_plan(
    record: Record,
    plan: Plan,
    *,
    ported: bool = False,
    others: Mapping[str, str | None] | None = None,
) -> Record:
    """Return the record after a plan; ``others`` are as for ``Record.with_applied``."""
    changes = {
        change.file: AppliedFile(digest_or_none(change.before), digest_or_none(change.after), change.patches)
        for change in recorded(plan)
    }
    return record.with_applied(changes, _applied(plan), ported=ported, others=others)


def _applied(plan: Plan) -> list[AppliedPatch]:
    return [
        AppliedPatch(
            status.patch.id,
            tuple(status.patch.requires),
            tuple(
                AppliedEdit(edit.name, edit.file, how)
                for edit in status.edits
                if (how := _how(plan, status, edit)) is not None
            ),
            form=status.patch.form,
        )
        for status in plan.changed_patches
    ]


def _how(plan: Plan, status: PatchStatus, edit: EditStatus) -> How | None:
    """Return how a plan brings an edit into its file, None if the edit was there or does not get there."""
    if (status.patch.id, edit.name) not in plan.manual_edits:
        return How.MADE if edit.state is State.PENDING else None
    if edit.state is not State.PENDING:
        return How.FOUND
    return How.ACCEPTED if edit.reason == ACCEPTED else How.BY_HAND


def _result(plan: Plan) -> ApplyResult:
    applied = {status.patch.id: _as_applied(status) for status in plan.changed_patches}
    patches = tuple(applied.get(status.patch.id, status) for status in plan.patches)
    marked = tuple(
        (change.file, block) for change in plan.changes for block in marked_conflicts(change.after or b"")
    )
    files = tuple(change.file for change in plan.changes if change.before != change.after)
    return ApplyResult(patches, files, marked=marked, left_out=plan.left_out)


def _as_applied(status: PatchStatus) -> PatchStatus:
    """Return a patch's status after its edits are made; a conflict remains a conflict."""
    made = {part.name for part in status.made}
    edits = tuple(
        _edit_as_applied(edit, status.patch) if status.patch.part_of(edit.name).name in made else edit
        for edit in status.edits
    )
    if status.state is State.CONFLICT:
        return replace(status, edits=edits)
    return replace(status, state=State.APPLIED, reason="", edits=edits)


def _edit_as_applied(edit: EditStatus, patch: Patch) -> EditStatus:
    """Return an edit of an applied patch as applied, also if it was in the tree before.

    That of a diff, if it was made, keeps what was said about it.
    """
    if edit.state in {State.NOT_APPLICABLE, State.CONFLICT}:
        return edit
    is_said = bool(patch.diffs) and edit.state is State.PENDING
    return replace(edit, state=State.APPLIED, reason=edit.reason if is_said else "")
