"""Commit a ported change with its author, date and message, and a trailer that names the original commit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from patchkit.errors import TreeError
from patchkit.series.commit import require_committable, require_committed
from patchkit.series.plumbing import git_output
from patchkit.series.worktree import linked_worktree
from patchkit.transaction.apply import Transaction
from patchkit.transaction.current import current_record
from patchkit.transaction.ledger import PORTED, Record
from patchkit.transaction.ports import trailer, trailer_of, without_trailers
from patchkit.transaction.store import Store
from patchkit.transaction.uncommitted import PACKAGE_FILE, uncommitted
from patchkit.transaction.write import place_of
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from patchkit.drafting.change import Facts
    from patchkit.plan.status import Plan
    from patchkit.series.worktree import LinkedWorktree
    from patchkit.tree.tree import CheckoutTree


class Origin(Protocol):
    """The origin of a change: facts about it, and its commit and repository if it has them."""

    @property
    def facts(self) -> Facts:
        """The facts from its message."""
        ...

    @property
    def commit(self) -> str:
        """The commit's id, empty for a diff."""
        ...

    @property
    def repository(self) -> Path:
        """The repository of the commit."""
        ...


def commit_ports(
    tree: CheckoutTree, whole: Plan, steps: Sequence[tuple[Origin, Plan]], concerned: Iterable[str]
) -> tuple[str, ...]:
    """Commit each change on the current branch, all or none; return their commits, empty for a change without effect.

    ``whole`` is the plan of all changes together, ``concerned`` are the files that they change or find changed. Raise
    TreeError if git does not track the package, one of these files has uncommitted changes, or another git operation is
    in progress, and RefusedCommitError if git or a hook rejects a commit.
    """
    require_committable(tree)
    require_committed(tree, whole)
    _require_found_committed(tree, concerned)
    commits: list[str] = []
    with linked_worktree(tree, "patchkit port --commit") as worktree:
        for origin, plan in steps:
            if not plan.changes:
                commits.append("")
                continue
            Transaction(worktree.tree, PORTED, allow_dirty=True, committed=True).commit(plan)
            files = sorted({change.file for change in plan.changes})
            worktree.add(files)
            changed = {change.file: (change.before, change.after) for change in plan.changes}
            line = trailer(origin.facts.id, changed)
            author, date, message = _authorship(origin, line)
            authorship = [f"--author={author}", f"--date={date}"] if author else []
            parent = worktree.head
            commit = worktree.run_commit(message, "--cleanup=whitespace", *authorship)
            made = trailer_of(worktree.tree.package, origin.facts.id, parent, commit)
            commits.append(commit if made == line else _with_trailer(worktree, line, made))
    return tuple(commits)


def _require_found_committed(tree: CheckoutTree, files: Iterable[str]) -> None:
    """Raise TreeError if a file differs from HEAD: an edit that is found in it would be in no commit."""
    contents = {file: tree.read(file) for file in sorted(files)}
    checkout = Checkout(tree.package)
    if not checkout.has(PACKAGE_FILE):
        raise TreeError(f"git does not track {tree.package}", advice="leave out --commit")
    places = {
        file: (place_of(tree, file, exists=True), text) for file, text in contents.items() if text is not None
    }
    dirty = uncommitted(tree.package, places)
    missing = contents.keys() - places.keys()
    if missing:
        dirty += sorted({*checkout.committed(missing), *checkout.staged(missing)})
    if not dirty:
        return
    store = Store(tree.package)
    record = current_record(store.read(), tree.read, store.get) or Record()
    known = [record.files[file] for file in dirty if file in record.files]
    names = sorted(record.ported.intersection(name for each in known for name in each.patches))
    raise TreeError(
        "uncommitted, and part of the change, so that its commit would lack them",
        where=", ".join(dirty),
        advice=(
            f"run patchkit revert {tree.argument} {' '.join(names)}, then try again"
            if names
            else "commit, stash (git stash -u) or move them, then try again"
        ),
    )


def _with_trailer(worktree: LinkedWorktree, line: str, made: str) -> str:
    """Replace the trailer in the last commit, whose changes a hook rewrote, and return the new commit's id."""
    message = git_output(worktree.top, "log", "-1", "--format=%B").replace(line, made)
    no_hooks = ("-c", f"core.hooksPath={os.devnull}")
    arguments = ("commit", "--quiet", "--amend", "--allow-empty", "--cleanup=whitespace", "--file=-")
    git_output(worktree.top, *worktree.settings, *no_hooks, *arguments, given=os.fsencode(message))
    return worktree.head


def _authorship(origin: Origin, trailer_line: str) -> tuple[str, str, str]:
    """Return author, date and message of a change.

    The message ends with ``trailer_line`` and with the original commit, as ``git cherry-pick -x`` names it.
    """
    facts = origin.facts
    if not origin.commit:
        title, why = (without_trailers(text).strip() for text in (facts.title, facts.why))
        body = [why] if why != title else []
        return "", "", _message([title or facts.id, *body], trailer_line, facts.upstream_commit)
    format_option = "--format=%an <%ae>%x00%ad%x00%B"
    log = git(origin.repository, "log", "-1", "--date=raw", format_option, origin.commit, "--")
    fields = log.stdout.decode(errors="replace").split("\0")
    if log.returncode != 0 or len(fields) != 3:
        raise TreeError(
            f"git cannot read the author of {origin.commit} in {origin.repository}",
            advice="run git fsck there",
        )
    author, date, message = fields
    # The trailers of a port that is ported again state what that one changed.
    message = without_trailers(message).rstrip()
    return author, f"@{date}", _message([message or facts.id], trailer_line, origin.commit)


def _message(paragraphs: Sequence[str], trailer_line: str, commit: str) -> str:
    trailers = f"{trailer_line}\n" + (f"(cherry picked from commit {commit})\n" if commit else "")
    return "\n\n".join([*filter(None, paragraphs), trailers])
