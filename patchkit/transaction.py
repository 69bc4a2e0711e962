"""All or nothing: a tree gets every byte of an apply or a revert, or, whatever goes wrong, not one.

Only this module writes a tree. A write notes itself in a journal, keeps every content that it takes or gives
in the ledger's folder and stages the new files beside the old ones; then it renames them into place. What
fails in between is taken back; what is killed in between is finished or taken back by `recover`.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import filelock

from patchkit import durable
from patchkit.errors import ConflictError, TreeError
from patchkit.ledger import AppliedEdit, AppliedFile, AppliedPatch, Journal, Ledger, Store, digest_of
from patchkit.plan import State
from patchkit.tree import git
from patchkit.unwind import going, unwind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from patchkit.plan import EditStatus, PatchStatus, Plan
    from patchkit.tree import CheckoutTree
    from patchkit.unwind import Replay


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
        with _locked(self.tree) as store:
            before = store.read()
            writes = self._prepare(plan, before)
            changes = {
                change.file: AppliedFile(digest_of(change.before), digest_of(change.after), change.patches)
                for change in plan.changes
            }
            after = before.with_applied(changes, _applied(plan), self.digest)
            _write(self.tree, store, writes, before=before, after=after)
        return _outcome(plan)

    def _prepare(self, plan: Plan, ledger: Ledger) -> list[_Write]:
        writes = _writes(self.tree, {change.file: (change.before, change.after) for change in plan.changes})
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


@dataclass(frozen=True)
class Reverted:
    """What a revert took back: patch ids and files."""

    patches: tuple[str, ...]
    files: tuple[str, ...]


def recorded(tree: CheckoutTree) -> tuple[str, ...]:
    """Return the ids of the patches that the tree's ledger records, in the order in which they came."""
    return tuple(Store(tree.package).read().patches)


def revert(tree: CheckoutTree, patches: frozenset[str] | None, replay: Replay) -> Reverted:
    """Take back ``patches`` (None: all that the ledger records) and what hardens nothing but them.

    A file that stands as apply left it gets its old bytes; one edited since keeps those edits.
    ConflictError, and nothing written, if the two cannot be told apart, if a patch that stays requires one
    that goes, or if the ledger does not record a patch.
    """
    require_settled(tree)
    unknown = (patches or frozenset()).difference(recorded(tree))
    if unknown:
        raise ConflictError(
            f"no ledger in {tree.package} records {', '.join(sorted(unknown))}: what was applied "
            "elsewhere, or lost its .patchkit folder, is undone with git (git revert, git checkout)."
        )
    if not recorded(tree):
        return Reverted((), ())
    with _locked(tree) as store:
        ledger = store.read()
        gone = frozenset(ledger.patches) if patches is None else going(ledger, patches)
        unwound = unwind(ledger, gone, tree.read, store.get, replay)
        changed = {file: change for file, change in unwound.changes.items() if change[0] != change[1]}
        writes = _writes(tree, changed)
        _write(tree, store, writes, before=ledger, after=unwound.ledger, contents=unwound.contents)
    return Reverted(tuple(patch for patch in ledger.patches if patch in gone), tuple(changed))


@dataclass(frozen=True)
class Recovery:
    """How an interrupted write ended: ``finished``, ``rolled-back``, or ``nothing`` was interrupted."""

    action: str
    files: tuple[str, ...] = ()


def recover(tree: CheckoutTree) -> Recovery:
    """Finish an interrupted write if everything that it takes is on disk, take it back otherwise.

    TreeError, and nothing written, if someone has changed one of the files since.
    """
    if not Store(tree.package).folder.exists():
        return Recovery("nothing")
    with _locked(tree, recovering=True) as store:
        journal = store.journal()
        if journal is None:
            return Recovery("nothing")
        stands = {file: digest_of(tree.read(file) or b"") for file in journal.files}
        for file, known in journal.files.items():
            if stands[file] not in known:
                raise TreeError(
                    f"{tree.package / file} was changed after the write was interrupted: keep your version "
                    f"elsewhere, copy {store.path(known[0])} in its place, and run patchkit recover again."
                )
        finish = all(map(store.holds, journal.contents))
        wanted = {file: after if finish else before for file, (before, after) in journal.files.items()}
        with _refusing(tree, "run patchkit recover again once that is mended"):
            for file, digest in wanted.items():
                path = _target(tree, file)
                durable.unstage(path)
                if stands[file] != digest:
                    durable.replace(path, store.get(digest), like=path)
            if finish:
                store.stage(journal.ledger)
                store.publish()
            store.end()
    return Recovery("finished" if finish else "rolled-back", tuple(wanted))


def require_settled(tree: CheckoutTree) -> None:
    """Raise TreeError if a write to ``tree`` is under way or was interrupted."""
    if Store(tree.package).pending:
        raise TreeError(
            f"a write to {tree.package} is under way or was interrupted: "
            f"if no other patchkit is at work, run patchkit recover {tree.root}."
        )


@dataclass(frozen=True)
class _Write:
    file: str
    path: Path
    before: bytes
    after: bytes


@contextmanager
def _locked(tree: CheckoutTree, *, recovering: bool = False) -> Iterator[Store]:
    _require_writable(tree.package)
    store = Store(tree.package)
    lock = filelock.FileLock(store.lock)
    with _refusing(tree, "nothing was changed; mend that and try again"):
        fresh = not store.folder.exists()
        try:
            store.create()
            lock.acquire(blocking=False)
        except (filelock.Timeout, FileNotFoundError):
            raise TreeError(
                f"another patchkit is writing to {tree.package}: wait for its end and try again."
            ) from None
        except OSError:
            if fresh:
                store.discard()
            raise
    try:
        if not recovering:
            require_settled(tree)
        yield store
    finally:
        store.tidy()
        lock.release()


@contextmanager
def _refusing(tree: CheckoutTree, advice: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreeError(f"{error.filename or tree.package}: {error.strerror}: {advice}.") from error


def _target(tree: CheckoutTree, file: str) -> Path:
    """Return the regular file that ``file`` stands for; TreeError unless it is in the package."""
    named = tree.package / file
    try:
        path = named.resolve(strict=True)
        kind = path.stat().st_mode
    except (OSError, RuntimeError) as error:
        raise TreeError(f"{named} cannot be reached ({error}): put it back and try again.") from error
    if not path.is_relative_to(tree.package):
        raise TreeError(f"{named} leads out of the tree to {path}: put a copy of the file in its place.")
    if not stat.S_ISREG(kind):
        raise TreeError(f"{named} is not a regular file: put one in its place.")
    return path


def _require_writable(path: Path) -> None:
    # Root may write everywhere, yet a file without any write bit says that its owner wants it left alone.
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise TreeError(f"{path} is read-only: make it writable (chmod u+w) or work on a copy of the tree.")


def _writes(tree: CheckoutTree, contents: Mapping[str, tuple[bytes, bytes]]) -> list[_Write]:
    """Check that each file may be written and stands as the first of its two contents."""
    writes: dict[Path, _Write] = {}
    for file, (before, after) in contents.items():
        path = _target(tree, file)
        _require_writable(path)
        _require_writable(path.parent)
        if tree.read(file) != before:
            raise TreeError(f"{path} was changed while patchkit was at work: try again.")
        if path in writes:
            raise TreeError(
                f"{writes[path].file} and {file} are the same file: put a copy in place of the link."
            )
        writes[path] = _Write(file, path, before, after)
    return list(writes.values())


def _dirty(tree: CheckoutTree, writes: Sequence[_Write]) -> list[str]:
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


def _write(
    tree: CheckoutTree,
    store: Store,
    writes: Sequence[_Write],
    *,
    before: Ledger,
    after: Ledger,
    contents: Sequence[bytes] = (),
) -> None:
    """Give every file and the ledger their new content, or leave every one as it is and raise TreeError."""
    journal = Journal({w.file: (digest_of(w.before), digest_of(w.after)) for w in writes}, after)
    try:
        store.begin(journal)
        for content in (*contents, *(content for write in writes for content in (write.before, write.after))):
            store.put(content)
        store.stage(after)
        for write in writes:
            durable.stage(write.path, write.after, like=write.path)
        for write in writes:
            durable.publish(write.path)
        store.publish()
    except BaseException as error:
        _roll_back(tree, store, writes, before)
        if isinstance(error, OSError):
            raise TreeError(
                f"{error.filename or tree.package}: {error.strerror}: nothing was changed; mend that "
                "and try again."
            ) from error
        raise
    with _refusing(tree, f"everything is written; run patchkit recover {tree.root}"):
        store.end()


def _roll_back(tree: CheckoutTree, store: Store, writes: Sequence[_Write], before: Ledger) -> None:
    with _refusing(tree, f"the write is interrupted; run patchkit recover {tree.root}"):
        for write in writes:
            durable.unstage(write.path)
            if write.path.read_bytes() == write.after:
                durable.replace(write.path, write.before, like=write.path)
        store.unstage()
        if store.read() != before:
            store.stage(before)
            store.publish()
        store.end()


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
