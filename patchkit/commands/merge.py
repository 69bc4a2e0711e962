"""Merge a branch: revert the patches on both sides, merge, and apply the patches to the result.

Git cannot merge the same change made to two versions of a file. Therefore patches are reverted on both sides, in a
separate commit, before the merge, and applied again after it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from patchkit.commands.revert import revert
from patchkit.errors import ConflictError, TreeError
from patchkit.plan import vendor
from patchkit.plan.fitting import fitting_plan
from patchkit.plan.planner import Planner
from patchkit.series.commit import Commit, commits, require_committable
from patchkit.series.plumbing import error_line, git_output, run_git
from patchkit.series.worktree import linked_worktree
from patchkit.transaction.candidates import patch_base
from patchkit.transaction.revert import in_code
from patchkit.transaction.write import read_consistently
from patchkit.tree.checkout import Checkout
from patchkit.tree.git import commit_of, git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import Plan
    from patchkit.series.worktree import LinkedWorktree
    from patchkit.tree.tree import CheckoutTree

_REVERT_MESSAGE = "Revert patchkit's patches for a merge"


class UnmergedError(ConflictError):
    """The merge conflicts in ``files``."""

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(f"{', '.join(files)}: conflicts.")
        self.files = files


@dataclass(frozen=True)
class BranchMerge:
    """The merged commit, the patches reverted for it on either side, and the commits of the patches applied after it.

    ``is_new`` is False if the branch already had that commit. ``left_out`` are the patches that conflict with it, and
    those that need them, with the reasons: they were reverted and not applied again.
    """

    merged: str
    reverted: tuple[str, ...]
    commits: tuple[Commit, ...]
    is_new: bool = True
    left_out: Mapping[str, str] = field(default_factory=dict)


def merge(tree: CheckoutTree, patches: PatchSet, ref: str) -> BranchMerge:
    """Merge ``ref`` into the branch of ``tree`` without patches, then apply the patches that either side had.

    Patches that conflict with the result are left out. Branch, index, files and record are changed only after
    everything is committed. Raise TreeError if the tree has uncommitted changes, UsageError if there is no such ref,
    ConflictError if the merge itself conflicts, and RefusedCommitError if a hook rejects a commit.
    """
    head = clean_head(tree)
    other = commit_of(tree.root, ref)
    if _is_ancestor(tree, other, head):
        return BranchMerge(other, (), (), is_new=False)
    if obstacle := merge_obstacle(tree, ref):
        raise obstacle
    with linked_worktree(tree, f"patchkit rebase --onto {ref} --merge", head) as worktree:
        if _is_ancestor(tree, "HEAD", other):
            worktree.switch(other)
            return BranchMerge(other, (), ())
        ours = _unpatched(worktree, worktree.base, patches)
        try:
            theirs = _unpatched(worktree, other, patches)
            bases = [_unpatched(worktree, base, patches) for base in _bases(tree, other)]
            result = _result(worktree, ours, theirs, bases)
        except UnmergedError as error:
            raise ConflictError(
                f"{ref} conflicts with this branch even without patches, in {', '.join(error.files)}, so nothing was "
                "changed",
                advice=f"patchkit revert, commit that, git merge {shlex.quote(ref)}, resolve it, then patchkit apply "
                "--commit",
            ) from None
        except ConflictError as error:
            raise ConflictError(f"{ref}: {error.what}", where=error.where, advice=error.advice) from error
        worktree.switch(worktree.base)
        worktree.read_tree(ours.tree)
        if ours.tree != git_output(worktree.top, "rev-parse", "HEAD^{tree}"):
            worktree.run_commit(_REVERT_MESSAGE)
        _commit_merge(worktree, ref, other, result)
        reverted = tuple(dict.fromkeys((*ours.patches, *theirs.patches)))
        if not reverted:
            return BranchMerge(other, (), ())
        runtime = (ours if ours.patches else theirs).runtime
        planned = _planned(worktree, patches, reverted, runtime)
        applied = commits(worktree, planned, patches, runtime)
    return BranchMerge(other, reverted, applied, left_out=planned.left_out)


def is_merged(tree: CheckoutTree, ref: str) -> bool:
    """Return whether the branch of ``tree`` has ``ref`` already. Raise UsageError if there is no such ref."""
    return _is_ancestor(tree, commit_of(tree.root, ref), "HEAD")


def merge_obstacle(tree: CheckoutTree, ref: str) -> TreeError | None:
    """Return why git cannot merge ``ref`` into the branch of ``tree``, or None. Raise UsageError for no such ref."""
    if _bases(tree, commit_of(tree.root, ref)):
        return None
    what = f"git cannot merge {ref}, which has no commit in common with this branch"
    if Checkout(tree.package).is_shallow:
        return TreeError(f"{what} in this shallow clone", advice="run git fetch --unshallow, then try again")
    name = shlex.quote(ref)
    return TreeError(what, advice=f"to move to it, run git switch --detach {name}, then patchkit apply")


def clean_head(tree: CheckoutTree) -> str:
    """Return the current commit. Raise TreeError if git cannot commit now, or if there are uncommitted changes."""

    def head_of(read: CheckoutTree) -> str:
        require_committable(read)
        head = git_output(read.root, "rev-parse", "HEAD")
        if git_output(read.root, "status", "--porcelain", "--untracked-files=no"):
            raise TreeError(
                f"{read.root} has uncommitted changes", advice="commit or stash them, then try again"
            )
        return head

    return read_consistently(tree, head_of)


@dataclass(frozen=True)
class _UnpatchedCommit:
    """A commit's tree without patches, the patches that were reverted for it, and their ``runtime`` option."""

    tree: str
    patches: tuple[str, ...]
    runtime: str


def _unpatched(worktree: LinkedWorktree, commit: str, patches: PatchSet) -> _UnpatchedCommit:
    """Revert the patches of a commit. Raise ConflictError if that is not possible."""
    worktree.switch(commit)
    runtime = "vendored" if vendor.is_vendored(worktree.tree) else "import"
    if not in_code(worktree.tree, Planner(worktree.tree, patches)):
        return _UnpatchedCommit(git_output(worktree.top, "rev-parse", "HEAD^{tree}"), (), runtime)
    reverted = revert(worktree.tree, patches)
    worktree.add(reverted.files)
    unpatched = git_output(worktree.top, "write-tree")
    worktree.read_tree("HEAD")
    return _UnpatchedCommit(unpatched, reverted.patches, runtime)


def _planned(worktree: LinkedWorktree, patches: PatchSet, ids: Sequence[str], runtime: str) -> Plan:
    """Return the plan of the patches that fit the merge's result."""
    planner = Planner(worktree.tree, patches, runtime)
    planned = fitting_plan(lambda without: planner.plan(ids, without=without))
    return planner.combined_plan(planned, patch_base(worktree.tree, planner))


def _bases(tree: CheckoutTree, other: str) -> list[str]:
    return git(tree.root, "merge-base", "--all", "HEAD", other).stdout.decode().split()


def _result(
    worktree: LinkedWorktree,
    ours: _UnpatchedCommit,
    theirs: _UnpatchedCommit,
    bases: Sequence[_UnpatchedCommit],
) -> str:
    """Return the tree of the merge, which git makes of commits with the unpatched trees."""
    parents = [word for base in bases for word in ("-p", _commit(worktree, base))]
    worktree.switch(_commit(worktree, ours, *parents))
    # Only the tree of this merge is used, so it is not committed.
    options = ("--quiet", "--no-commit", "--no-ff", "--no-verify-signatures", "--no-autostash")
    done = run_git(worktree.top, "merge", *options, _commit(worktree, theirs, *parents))
    unmerged = git_output(worktree.top, "diff", "--name-only", "--diff-filter=U", "-z").rstrip("\0")
    if unmerged:
        raise UnmergedError(tuple(unmerged.split("\0")))
    if done.returncode != 0:
        raise TreeError(
            f"git merge failed ({error_line(done)}), so nothing was changed", advice="fix that and try again"
        )
    tree = git_output(worktree.top, "write-tree")
    worktree.read_tree("HEAD")
    return tree


def _commit(worktree: LinkedWorktree, unpatched: _UnpatchedCommit, *parents: str) -> str:
    result = git(worktree.top, "commit-tree", unpatched.tree, *parents, "-m", _REVERT_MESSAGE, named=True)
    return result.stdout.decode().strip()


def _commit_merge(worktree: LinkedWorktree, ref: str, other: str, result: str) -> None:
    """Commit the result as a merge of ``other``, as if its conflicts had been resolved by hand."""
    run_git(worktree.top, "merge", "--quiet", "--no-commit", "--no-ff", "--strategy=ours", other)
    worktree.read_tree(result)
    into = f" into {worktree.branch.removeprefix('refs/heads/')}" if worktree.branch else ""
    worktree.run_commit(f"Merge {ref}{into}")


def _is_ancestor(tree: CheckoutTree, commit: str, of: str) -> bool:
    return git(tree.root, "merge-base", "--is-ancestor", commit, of).returncode == 0
