"""Commit each patch on its own, and move the current branch when all commits are made."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.plan.planner import Planner
from patchkit.plan.status import Plan, State
from patchkit.series.message import message
from patchkit.series.plumbing import git_output
from patchkit.series.worktree import RefusedCommitError, linked_worktree
from patchkit.transaction.apply import ApplyResult, Transaction
from patchkit.transaction.candidates import Candidates, patch_base
from patchkit.transaction.current import unedited
from patchkit.transaction.uncommitted import uncommitted, uncommitted_error, uncommitted_patches
from patchkit.transaction.write import check_targets, record_path
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, Stage
    from patchkit.series.worktree import LinkedWorktree
    from patchkit.transaction.journal import Kinds
    from patchkit.transaction.write import Exchange
    from patchkit.tree.tree import CheckoutTree
    from patchkit.verify.result import Verdict

# Files in git's folder during an operation, and the operation.
_IN_PROGRESS = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
}


@dataclass(frozen=True)
class Commit:
    """The commit of one patch; patches that a hook accepts only together share one."""

    patch: str
    commit: str


@dataclass(frozen=True)
class CommitResult:
    """The result of applying the plan, its commits, oldest first, and the verdict on them if they were verified."""

    applied: ApplyResult
    commits: tuple[Commit, ...]
    verdict: Verdict | None = None


@dataclass(frozen=True)
class PreparedCommit:
    """A plan that can be committed, the result of applying it, and the commit that it was made for."""

    plan: Plan
    applied: ApplyResult
    head: str


def prepare(tree: CheckoutTree, plan: Plan) -> PreparedCommit:
    """Return a plan for ``commit``, of a tree that is committable.

    Raise TreeError if git does not track the package, a file that the plan changes has uncommitted changes, or a patch
    of the plan, or one that its patches require, is applied but not committed.
    """
    # Uncommitted changes are an error of the next call, with what to type before a commit.
    applied = Transaction(tree, allow_dirty=True).check(plan)
    head = git_output(tree.root, "rev-parse", "HEAD")
    require_committed(tree, {change.file: (change.before, change.after) for change in plan.changes})
    _require_patches(tree, plan)
    return PreparedCommit(plan, applied, head)


def commit(
    tree: CheckoutTree,
    prepared: PreparedCommit,
    patches: PatchSet,
    runtime: str,
    check: Callable[[CheckoutTree], object] = lambda _: None,
) -> CommitResult:
    """Write a plan patch by patch and commit each; ``runtime`` is that of ``Planner``.

    A patch whose edits are all made by another one is recorded, without a commit. Hooks run, and the author is
    git's. ``check`` is called with the tree that has all commits, before ``tree`` gets them. Raise TreeError if HEAD
    moved since the plan was made, RefusedCommitError if git or a hook rejects a commit, and what ``check`` raises. In
    each case nothing has changed.
    """
    if not prepared.plan.changed_patches:
        check(tree)
        return CommitResult(prepared.applied, ())
    with linked_worktree(tree, "patchkit apply --commit", prepared.head) as worktree:
        made = commits(worktree, prepared.plan, patches, runtime)
        check(worktree.tree)
    return CommitResult(prepared.applied, made)


def commits(worktree: LinkedWorktree, plan: Plan, patches: PatchSet, runtime: str) -> tuple[Commit, ...]:
    """Commit the plan's patches in a linked worktree, each alone, or together if a hook rejects one alone."""
    done: list[Commit] = []
    remaining = list(plan.changed_patches)
    series = _Series(worktree, plan, Planner(worktree.tree, patches, runtime))
    while remaining:
        group: list[PatchStatus] = []
        files: set[str] = set()
        refusals: list[RefusedCommitError] = []
        for wider in (remaining[:1], remaining)[: len(remaining)]:
            for status in wider[len(group) :]:
                files |= _write(worktree, series.plan(status.patch.id), status.patch.id)
            group = wider
            if not files:
                break
            try:
                identifier = worktree.commit(sorted(files), message(group, patches.settings.subject_prefix))
            except RefusedCommitError as error:
                refusals.append(error)
                continue
            done += [Commit(status.patch.id, identifier) for status in group]
            break
        else:
            first = refusals[0]
            raise RefusedCommitError(f"{remaining[0].patch.id}: {first.what}", reasons=first.reasons)
        remaining = [status for status in remaining if status not in group]
    return tuple(done)


def changed_by_hooks(tree: CheckoutTree, files: Iterable[str], commits: Sequence[str]) -> frozenset[str]:
    """Return the files, named from the package, that these commits change besides ``files`` and the record."""
    if not commits:
        return frozenset()
    top = git_output(tree.package, "rev-parse", "--show-toplevel")
    listed = git_output(tree.package, "show", "--format=", "--name-only", "--no-renames", "-z", *commits)
    places = (os.path.join(top, name) for name in listed.split("\0") if name)
    names = {os.path.relpath(place, tree.package) for place in places}
    folder = os.path.relpath(record_path(tree), tree.package)
    return frozenset(name for name in names.difference(files) if os.path.dirname(name) != folder)


class _Series:
    """The plans of patches that are written one after the other.

    They are made together, since each alone takes as long as all, for a tree without patches in which only they change
    files; a commit's hooks may.
    """

    def __init__(self, worktree: LinkedWorktree, plan: Plan, planner: Planner) -> None:
        self._worktree, self._planner = worktree, planner
        self._head = worktree.head
        self._written: dict[str, bytes | None] = {}
        self._stages: dict[str, Stage] = {}
        # What is wrong with record or files is said where they are read for a patch.
        with suppress(ConflictError, TreeError, UsageError):
            if not plan.manual_edits and Candidates(worktree.tree, planner).is_unpatched:
                stages = planner.stages([status.patch.id for status in plan.changed_patches])
                self._stages = {stage.status.patch.id: stage for stage in stages}

    def plan(self, name: str) -> Plan:
        """Return the plan of the next patch on the worktree as it is."""
        stage, tree = self._stages.get(name), self._worktree.tree
        if stage is None or not _is_whole(stage) or not self._is_as_written:
            # The plan depends on the patches committed before.
            return self._planner.combined_plan(self._planner.plan((name,)), patch_base(tree, self._planner))
        self._written |= {change.file: change.after for change in stage.changes}
        return Plan(tree, (stage.status,), stage.changes)

    @property
    def _is_as_written(self) -> bool:
        top, tree = self._worktree.top, self._worktree.tree
        changed = {
            top / name for name in git_output(top, "diff", "--name-only", "-z", self._head).split("\0")
        }
        own = {top, *(tree.package / file for file in self._written)}
        record = record_path(tree)
        return all(tree.read(file) == text for file, text in self._written.items()) and all(
            path in own or record in path.parents for path in changed
        )


def _is_whole(stage: Stage) -> bool:
    """Return whether a stage changes every file that the record gets for it, also one that an earlier patch made so."""
    pending = {edit.file for edit in stage.status.edits if edit.state is State.PENDING}
    return pending <= {change.file for change in stage.changes}


def _write(worktree: LinkedWorktree, planned: Plan, name: str) -> set[str]:
    """Write one patch to the linked worktree and return the changed files. Raise ConflictError if it conflicts."""
    status = next(status for status in planned.patches if status.patch.id == name)
    if status.state is State.CONFLICT:
        raise ConflictError(
            f"{name} conflicts with the committed code ({status.reason}), so nothing was changed",
            advice="patchkit diff shows where",
        )
    Transaction(worktree.tree, allow_dirty=True).commit(planned)
    return {change.file for change in planned.changes if change.before != change.after}


def require_committable(tree: CheckoutTree) -> None:
    """Raise TreeError if git cannot commit now, for example during a merge."""
    where = tree.package
    if git(where, "rev-parse", "--verify", "--quiet", "HEAD").returncode != 0:
        raise TreeError(f"{where} is in no git repository with a commit", advice="leave out --commit")
    git_folder = where / os.fsdecode(git(where, "rev-parse", "--git-dir").stdout.rstrip(b"\n"))
    for name, operation in _IN_PROGRESS.items():
        if (git_folder / name).exists():
            raise TreeError(
                f"a {operation} is in progress in {tree.root}", advice="finish or abort it, then try again"
            )
    if (git_folder / "index.lock").exists():
        raise TreeError(
            f"another git process is running in {tree.root}",
            advice="wait for it (or remove index.lock), then try again",
        )
    if git(tree.root, "ls-files", "--unmerged").stdout:
        raise TreeError(f"the index of {tree.root} has unmerged files", advice="resolve them, then try again")
    for identity in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if git(where, "var", identity, personal=True).returncode != 0:
            raise TreeError(
                "git has no name and address for the commit",
                advice="run git config for user.name and user.email, then try again",
            )


def require_committed(
    tree: CheckoutTree, changes: Mapping[str, Exchange], kinds: Mapping[str, Kinds] = MappingProxyType({})
) -> None:
    """Raise TreeError if HEAD and index differ from the files to change, or have a file to create."""
    if Checkout.tracking(tree.package) is None:
        raise TreeError(f"git does not track {tree.package}", advice="leave out --commit")
    files = {file: before for file, (before, _) in changes.items()}
    places = check_targets(tree, changes, kinds).places
    there = {file: (places[file], text) for file, text in files.items() if text is not None}
    dirty = uncommitted(tree.package, there, files.keys() - there.keys())
    if not dirty:
        return
    patches = uncommitted_patches(tree)
    if patches and unedited(tree).keys() >= set(dirty):
        raise _uncommitted_error(patches)
    raise uncommitted_error(tree.package, dirty, "commit or stash them")


def _require_patches(tree: CheckoutTree, plan: Plan) -> None:
    """Raise TreeError if a patch of a plan, or one that a patch to commit requires, is applied but not committed."""
    statuses = {status.patch.id: status for status in plan.patches}
    needed = [status.patch.id for status in plan.patches if status.state is State.APPLIED]
    needed += [name for status in plan.changed_patches for name in status.patch.requires]
    for name in needed:
        if name in statuses:
            needed += [other for other in statuses[name].patch.requires if other not in needed]
    if needed:
        patches = uncommitted_patches(tree)
        if not patches.keys().isdisjoint(needed):
            raise _uncommitted_error(patches)


def _uncommitted_error(patches: Mapping[str, Iterable[str]]) -> TreeError:
    names = " ".join(patches)
    return TreeError(
        "applied patches are not committed",
        where=", ".join(sorted({file for files in patches.values() for file in files})),
        advice=f"commit them with git, or run patchkit revert {names}, then patchkit apply --commit {names}",
    )
