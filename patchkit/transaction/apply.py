"""A plan is written to a tree whole, and recorded, or not at all."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.plan.status import State
from patchkit.transaction.ledger import AppliedEdit, AppliedFile, AppliedPatch, Ledger
from patchkit.transaction.store import Store, digest_of
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.plan.status import EditStatus, PatchStatus, Plan
    from patchkit.tree.tree import CheckoutTree

from patchkit.transaction.write import FileWrite, checked_writes, locked, require_settled, write_all


class Transaction:
    """One apply of a plan to a tree on disk; ``digest`` names the patch set that the plan comes from."""

    def __init__(self, tree: CheckoutTree, digest: str, *, allow_dirty: bool = False) -> None:
        self.tree = tree
        self.digest = digest
        self.allow_dirty = allow_dirty

    def check(self, plan: Plan) -> Applied:
        """Return what `commit` would, or raise TreeError if it would refuse; nothing is written."""
        require_settled(self.tree)
        self._prepare(plan, Store(self.tree.package).read())
        return _outcome(plan)

    def commit(self, plan: Plan) -> Applied:
        """Write the plan's changes and return what they come to; TreeError if the tree refuses, unchanged."""
        require_settled(self.tree)
        if not plan.changes:
            return _outcome(plan)
        with locked(self.tree) as store:
            before = store.read()
            writes = self._prepare(plan, before)
            changes = {
                change.file: AppliedFile(digest_of(change.before), digest_of(change.after), change.patches)
                for change in plan.changes
            }
            after = before.with_applied(changes, _applied(plan), self.digest)
            write_all(self.tree, store, writes, before=before, after=after)
        return _outcome(plan)

    def _prepare(self, plan: Plan, ledger: Ledger) -> list[FileWrite]:
        writes = checked_writes(
            self.tree, {change.file: (change.before, change.after) for change in plan.changes}
        )
        if not self.allow_dirty:
            ours = {write.file for write in writes if ledger.applied(write.file) == digest_of(write.before)}
            dirty = _dirty(self.tree, [write for write in writes if write.file not in ours])
            if dirty:
                raise TreeError(
                    f"{', '.join(dirty)}: uncommitted changes; commit or stash them, or pass --allow-dirty."
                )
        return writes


@dataclass(frozen=True)
class Applied:
    """What an apply came to: each patch's status after it, and the files that it changed."""

    patches: tuple[PatchStatus, ...]
    files: tuple[str, ...]


def _dirty(tree: CheckoutTree, writes: Sequence[FileWrite]) -> list[str]:
    """Return the files that git knows another content of; none where the package is in no git checkout."""
    package = tree.package
    if not writes or not any((folder / ".git").exists() for folder in (package, *package.parents)):
        return []
    names = {write.path.relative_to(package).as_posix(): write.file for write in writes}
    prefix = git(package, "rev-parse", "--show-prefix")
    status = git(package, "status", "--porcelain", "-z", "--untracked-files=all", "--", *names)
    if status.returncode or prefix.returncode:
        said = (prefix.stderr or status.stderr).decode(errors="replace").partition("\n")[0]
        if "not a git repository" in said:
            return []
        raise TreeError(
            f"git cannot tell what is uncommitted in {package} ({said}): pass --allow-dirty to go on."
        )
    start = len(prefix.stdout.rstrip(b"\n"))
    # A wheel unpacked below somebody's checkout is untracked as a whole, and git has no say in it.
    tracked = git(package, "ls-files", "--", "__init__.py").stdout != b""
    entries = [(entry[:2], os.fsdecode(entry[3:][start:])) for entry in status.stdout.split(b"\0")]
    return sorted(names[name] for state, name in entries if name in names and (tracked or state != b"??"))


def _made(plan: Plan) -> list[PatchStatus]:
    return [status for status in plan.patches if status.state in {State.PENDING, State.PARTIAL}]


def _applied(plan: Plan) -> list[AppliedPatch]:
    return [
        AppliedPatch(
            status.patch.id,
            status.patch.title,
            tuple(status.patch.requires),
            tuple(status.patch.hardens),
            tuple(AppliedEdit(e.name, e.file, e.site) for e in status.edits if e.state is State.PENDING),
        )
        for status in _made(plan)
    ]


def _outcome(plan: Plan) -> Applied:
    made = {
        status.patch.id: replace(
            status, state=State.APPLIED, reason="", edits=tuple(map(_settled, status.edits))
        )
        for status in _made(plan)
    }
    patches = tuple(made.get(status.patch.id, status) for status in plan.patches)
    return Applied(patches, tuple(change.file for change in plan.changes))


def _settled(edit: EditStatus) -> EditStatus:
    """An edit of an applied patch counts as patchkit's, also where a part of the patch was there before."""
    return edit if edit.state is State.NOT_APPLICABLE else replace(edit, state=State.APPLIED, reason="")
