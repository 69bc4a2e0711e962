"""Write a plan to a tree completely and record it, or write nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from patchkit.plan.markers import blocks_in
from patchkit.plan.status import State
from patchkit.transaction.current import current_record
from patchkit.transaction.ledger import AppliedEdit, AppliedFile, AppliedPatch, Record
from patchkit.transaction.store import Store
from patchkit.transaction.swap import digest_or_none
from patchkit.transaction.uncommitted import uncommitted, uncommitted_error
from patchkit.transaction.write import (
    check_targets,
    concurrent_change_error,
    locked,
    require_no_pending_write,
    write_all,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.patch import Patch
    from patchkit.plan.markers import Block
    from patchkit.plan.status import EditStatus, PatchStatus, Plan
    from patchkit.transaction.ledger import Ledger
    from patchkit.transaction.write import Targets
    from patchkit.tree.backends import InheritingBackend
    from patchkit.tree.tree import CheckoutTree, ReadTree


class Transaction:
    """One apply of a plan to a tree on disk; ``digest`` identifies the patch set that the plan was made from.

    With ``committed`` the changes are committed to git afterwards, and the record of the state before them is kept.
    """

    def __init__(
        self, tree: CheckoutTree, digest: str, *, allow_dirty: bool = False, committed: bool = False
    ) -> None:
        self.tree = tree
        self.digest = digest
        self.allow_dirty = allow_dirty
        self.committed = committed

    def check(self, plan: Plan) -> ApplyResult:
        """Return what `commit` would return, with nothing written. Raise TreeError if `commit` would."""
        require_no_pending_write(self.tree)
        store = Store(self.tree.package)
        self._prepare(plan, current_record(store.read(), self.tree.read, store.get) or Record())
        return _result(plan)

    def commit(self, plan: Plan, steps: Sequence[Plan] = (), read: ReadTree | None = None) -> ApplyResult:
        """Write the plan's changes and return the result, or raise TreeError with nothing written.

        ``steps`` are the plans that ``plan`` combines, in order, if each gets a record of its own. ``read`` is the tree
        that the plan was computed from, which must be unchanged.
        """
        require_no_pending_write(self.tree)
        if not plan.changes:
            return _result(plan)
        with locked(self.tree) as store:
            # A patch that the plan requires may have been reverted in a file that the plan does not change.
            if read is not None and not read.is_unchanged:
                raise concurrent_change_error(self.tree)
            before = store.read()
            record = current_record(before, self.tree.read, store.get) or Record()
            targets = self._prepare(plan, record)
            new_record, others = record, self._contents_of_ports(record)
            for step in steps or (plan,):
                new_record = with_plan(new_record, step, self.digest, targets.new_folders, others)
                others |= {change.file: digest_or_none(change.after) for change in step.changes}
            contents = (
                text for step in steps for change in step.changes for text in (change.before, change.after)
            )
            kept_contents = [text for text in contents if text is not None]
            after = self._ledger_after(before, record, new_record)
            write_all(self.tree, store, targets, before=before, after=after, kept=kept_contents)
        return _result(plan)

    def _contents_of_ports(self, record: Record) -> dict[str, str | None]:
        """Return the digests of the current contents of the files of ported changes."""
        files = {file for layer in record.layers if layer.is_ported for file in layer.files}
        return {file: digest_or_none(self.tree.read(file)) for file in files}

    def _ledger_after(self, ledger: Ledger, record: Record, new: Record) -> Ledger:
        return ledger.with_record(Record() if self.committed else record, new)

    def _prepare(self, plan: Plan, record: Record) -> Targets:
        targets = check_targets(
            self.tree, {change.file: (change.before, change.after) for change in plan.changes}
        )
        if not self.allow_dirty:
            known = record.files
            others = {
                file: (place, before)
                for file, place in targets.places.items()
                if (before := targets.contents[file][0]) is not None
                and not (file in known and known[file].applied == digest_or_none(before))
            }
            dirty = uncommitted(self.tree.package, others)
            if dirty:
                more = "" if self.committed else ", or pass --allow-dirty"
                raise uncommitted_error(self.tree.package, dirty, f"commit or stash them{more}")
        return targets


@dataclass(frozen=True)
class ApplyResult:
    """The result of an apply: each patch's state after it, and the files that it changed."""

    patches: tuple[PatchStatus, ...]
    files: tuple[str, ...]
    inheriting: tuple[InheritingBackend, ...] = ()
    """The backend classes that read the mirror and inherit an opt-out that the apply added."""
    marked: tuple[tuple[str, Block], ...] = ()
    """The conflict markers that were written, each with its file."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The reason for each patch that was left out because it conflicts."""
    resolved_elsewhere: tuple[tuple[str, str], ...] = ()
    """The conflicts for which a resolution of the same code is recorded, as patch id and edit name."""
    unrecorded: tuple[tuple[str, str], ...] = ()
    """The edits whose conflict markers a person removed and whose code is not recorded yet."""


def with_plan(
    record: Record,
    plan: Plan,
    digest: str,
    folders: Sequence[str],
    others: Mapping[str, str | None] | None = None,
) -> Record:
    """Return the record after a plan; ``folders`` are those that were created for its files.

    ``others`` are as for ``Record.with_applied``.
    """
    changes = {
        change.file: AppliedFile(digest_or_none(change.before), digest_or_none(change.after), change.patches)
        for change in plan.changes
    }
    return record.with_applied(changes, _applied(plan), digest, folders, others)


def _applied(plan: Plan) -> list[AppliedPatch]:
    return [
        AppliedPatch(
            status.patch.id,
            status.patch.title,
            tuple(status.patch.requires),
            tuple(AppliedEdit(e.name, e.file, e.site) for e in status.edits if e.state is State.PENDING),
            tuple(e.name for e in status.edits if (status.patch.id, e.name) in plan.manual_edits),
        )
        for status in plan.changed_patches
    ]


def _result(plan: Plan) -> ApplyResult:
    applied = {status.patch.id: _as_applied(status) for status in plan.changed_patches}
    patches = tuple(applied.get(status.patch.id, status) for status in plan.patches)
    marked = tuple(
        (change.file, block) for change in plan.changes for block in blocks_in(change.after or b"")
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
