"""Commit a ported change with its author, date and message, and a trailer that names the original commit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from patchkit.errors import TreeError
from patchkit.plan import record
from patchkit.plan.record import AppliedFile, Record
from patchkit.series.commit import require_committed
from patchkit.series.plumbing import NO_HOOKS, git_output
from patchkit.series.worktree import linked_worktree
from patchkit.transaction.apply import Transaction, kinds_of, recorded
from patchkit.transaction.current import current_record
from patchkit.transaction.ports import ported_message, trailer, trailer_of
from patchkit.transaction.swap import digest_or_none
from patchkit.transaction.uncommitted import uncommitted
from patchkit.transaction.write import locked, place_of, write_all
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import git, raw_changes
from patchkit.tree.outside import entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from patchkit.drafting.change import Facts
    from patchkit.plan.status import Plan
    from patchkit.series.worktree import LinkedWorktree
    from patchkit.tree.tree import CheckoutTree


def commit_ports(
    tree: CheckoutTree,
    whole: Plan,
    steps: Sequence[tuple[Facts, Plan, Sequence[str]]],
    concerned: Iterable[str],
) -> tuple[str, ...]:
    """Commit each change on the current branch, all or none; return their commits, empty for a change without effect.

    ``whole`` is the plan of all changes together, and ``concerned`` are the files that they change or find changed;
    each step names the files of which its commit leaves out a part. Raise TreeError if git does not track the
    package, or one of these files has uncommitted changes, and RefusedCommitError if git or a hook rejects a commit.
    """
    changes = {change.file: (change.before, change.after) for change in whole.changes}
    require_committed(tree, changes, kinds_of(whole))
    _require_found_committed(tree, concerned)
    commits: list[str] = []
    with linked_worktree(tree, "patchkit port --commit") as worktree:
        for facts, plan, left_out in steps:
            if not plan.changes:
                commits.append("")
                continue
            Transaction(worktree.tree, ported=True, allow_dirty=True).commit(plan)
            files = sorted({change.file for change in plan.changes})
            worktree.add(files)
            line = trailer(
                facts.id, {change.file: (change.before, change.after) for change in recorded(plan)}
            )
            authorship = [f"--author={facts.author}"] if facts.author else []
            authorship += [f"--date={facts.date}"] if facts.date else []
            parent = worktree.head
            commit = worktree.run_commit(_message(facts, line, left_out), "--cleanup=whitespace", *authorship)
            added = _files_of(worktree, commit) - {*files}
            if added:
                _record_added(worktree, facts.id, parent, added)
            made = trailer_of(worktree.tree.package, facts.id, parent, commit)
            is_whole = made == line and not added
            commits.append(commit if is_whole else _with_trailer(worktree, line, made))
    return tuple(commits)


def _require_found_committed(tree: CheckoutTree, files: Iterable[str]) -> None:
    """Raise TreeError if a file differs from HEAD: an edit that is found in it would be in no commit."""
    entries = {file: entry(tree, file) for file in sorted(files)}
    contents = {file: text for file, (_, text) in entries.items()}
    places = {
        file: (place_of(tree, file, exists=True, is_followed=False), text)
        for file, text in contents.items()
        if text is not None
    }
    dirty = uncommitted(tree.package, places, contents.keys() - places.keys())
    dirty += _with_another_mode(tree, places) if places else ()
    if not dirty:
        return
    current = current_record(tree)
    recorded_files = [current.files[file] for file in dirty if file in current.files]
    names = sorted(
        current.ported.intersection(
            name for recorded_file in recorded_files for name in recorded_file.patches
        )
    )
    raise TreeError(
        "uncommitted, and part of the change, so that its commit would lack them",
        where=", ".join(dict.fromkeys(dirty)),
        advice=(
            f"run patchkit revert {tree.argument} {' '.join(names)}, then try again"
            if names
            else "commit, stash (git stash -u) or move them, then try again"
        ),
    )


def _with_another_mode(tree: CheckoutTree, files: Iterable[str]) -> Iterator[str]:
    """Yield those of some files whose mode is not that of HEAD."""
    listed = git(tree.package, "diff-index", "--raw", "-z", "HEAD", "--", *files).stdout
    top = git_output(tree.package, "rev-parse", "--show-toplevel")
    for name, (before, after), _ in raw_changes(listed):
        if before != after:
            yield os.path.relpath(os.path.join(top, name), tree.package)


def _files_of(worktree: LinkedWorktree, commit: str) -> frozenset[str]:
    """Return the files of the package that a commit changes."""
    words = ("diff-tree", "-r", "-z", "--no-commit-id", "--no-renames", "--name-only", "--relative", commit)
    return frozenset(filter(None, git_output(worktree.tree.package, *words).split("\0")))


def _record_added(worktree: LinkedWorktree, name: str, parent: str, files: Iterable[str]) -> None:
    """Record the files that a hook added to the commit of a port with those of the port."""
    read_at = Checkout(worktree.tree.package).at
    added = {
        file: AppliedFile(
            digest_or_none(read_at(parent, file)), digest_or_none(worktree.tree.read(file)), (name,)
        )
        for file in files
    }
    with locked(worktree.tree) as store:
        before = record.read(worktree.tree)
        last = max(
            level for level, layer in enumerate(before.layers) if name in {p.id for p in layer.patches}
        )
        layers = list(before.layers)
        layers[last] = replace(layers[last], files=layers[last].files | added)
        write_all(worktree.tree, store, {}, before.replaced(Record(tuple(layers))))
    worktree.add(())


def _with_trailer(worktree: LinkedWorktree, line: str, made: str) -> str:
    """Replace the trailer in the last commit, whose changes a hook rewrote, and return the new commit's id."""
    message = git_output(worktree.top, "log", "-1", "--format=%B").replace(line, made)
    arguments = ("commit", "--quiet", "--amend", "--allow-empty", "--cleanup=whitespace", "--file=-")
    git_output(worktree.top, *worktree.settings, *NO_HOOKS, *arguments, given=os.fsencode(message))
    return worktree.head


def _message(facts: Facts, trailer_line: str, left_out: Sequence[str]) -> str:
    """Return the change's message, with ``trailer_line``, and with its commit as ``git cherry-pick -x`` writes it.

    If it is not the whole change, the message says so, and a trailer names each file.
    """
    picked = [f"(cherry picked from commit {facts.upstream_commit})"] if facts.upstream_commit else []
    return ported_message(facts.message, facts.id, left_out, trailer_line, *picked)
