"""Merge a branch: revert the patches on both sides, merge, and apply the patches to the result.

Git cannot merge the same change made to two versions of a file. Therefore patches are reverted on both sides, in a
separate commit, before the merge, and applied again after it.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.commands.revert import revert
from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.plan import vendor
from patchkit.plan.planner import Planner
from patchkit.plan.refusal import PlanConflictError, describe_conflicts
from patchkit.series.asking import asked, error_line, quietly
from patchkit.series.commit import Commit, commits, require_committable
from patchkit.series.worktree import linked
from patchkit.transaction import adopt
from patchkit.transaction.origins import origin
from patchkit.transaction.revert import in_code
from patchkit.transaction.write import settled
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import Plan
    from patchkit.series.worktree import LinkedWorktree
    from patchkit.tree.tree import CheckoutTree

_TAKEN_BACK = "Take patchkit's patches back for a merge"


class UnmergedError(ConflictError):
    """The merge conflicts in ``files``."""

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(f"{', '.join(files)}: conflicts.")
        self.files = files


@dataclass(frozen=True)
class BranchMerge:
    """The merged commit, the patches reverted for it on either side, and the commits of the patches applied after it.

    ``is_new`` is False if the branch already had that commit.
    """

    merged: str
    reverted: tuple[str, ...]
    commits: tuple[Commit, ...]
    is_new: bool = True


def merge(tree: CheckoutTree, patches: PatchSet, ref: str) -> BranchMerge:
    """Merge ``ref`` into the branch of ``tree`` without patches, then apply the patches that either side had.

    Branch, index, files and ledger are changed only after everything is committed. Raise TreeError if the tree has
    uncommitted changes, ConflictError if the merge or a patch after it conflicts, and RefusedCommitError if a hook
    rejects a commit.
    """
    head = settled(tree, _clean_head)
    named = git(tree.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if named.returncode != 0:
        raise UsageError(f"{ref} is not a commit of {tree.root}", advice="git fetch it, or name another ref")
    other = named.stdout.decode().strip()
    if _is_ancestor(tree, other, head):
        return BranchMerge(other, (), (), is_new=False)
    with linked(tree, f"patchkit rebase --onto {ref} --merge", head) as there:
        if _is_ancestor(tree, "HEAD", other):
            there.switch(other)
            return BranchMerge(other, (), ())
        ours = _unpatched(tree, there, there.base, patches)
        try:
            theirs = _unpatched(tree, there, other, patches)
            below = [_unpatched(tree, there, base, patches) for base in _bases(there, ref, other)]
            result = _result(there, ours, theirs, below)
        except UnmergedError as error:
            raise ConflictError(
                f"{ref} conflicts with this branch even without patches, in {', '.join(error.files)}, so nothing was "
                "changed",
                advice=f"patchkit revert, commit that, git merge {shlex.quote(ref)}, resolve it, then patchkit apply "
                "--commit",
            ) from None
        except ConflictError as error:
            raise ConflictError(f"{ref}: {error.what}", where=error.where, advice=error.advice) from error
        there.switch(there.base)
        there.become(ours.tree)
        if ours.tree != asked(there.top, "rev-parse", "HEAD^{tree}"):
            there.accepted("commit", "--quiet", "--message", _TAKEN_BACK)
        _conclude(there, ref, other, result)
        adopt.copy(tree, there.tree)
        had = tuple(dict.fromkeys((*ours.patches, *theirs.patches)))
        if not had:
            return BranchMerge(other, (), ())
        runtime = (ours if ours.patches else theirs).runtime
        made = commits(there, _planned(there, patches, had, runtime, ref), patches, runtime)
    return BranchMerge(other, had, made)


def _clean_head(tree: CheckoutTree) -> str:
    """Return the current commit. Raise TreeError if git cannot commit now, or if there are uncommitted changes."""
    require_committable(tree)
    head = asked(tree.root, "rev-parse", "HEAD")
    if asked(tree.root, "status", "--porcelain", "--untracked-files=no"):
        raise TreeError(f"{tree.root} has uncommitted changes", advice="commit or stash them, then try again")
    return head


@dataclass(frozen=True)
class _UnpatchedCommit:
    """A commit's tree without patches, the patches that were reverted for it, and their ``runtime`` option."""

    tree: str
    patches: tuple[str, ...]
    runtime: str


def _unpatched(tree: CheckoutTree, there: LinkedWorktree, commit: str, patches: PatchSet) -> _UnpatchedCommit:
    """Revert the patches of a commit. Raise ConflictError if that is not possible."""
    there.switch(commit)
    adopt.copy(tree, there.tree)
    runtime = "vendored" if vendor.is_vendored(there.tree) else "import"
    if not in_code(there.tree, Planner(there.tree, patches)):
        return _UnpatchedCommit(asked(there.top, "rev-parse", "HEAD^{tree}"), (), runtime)
    reverted = revert(there.tree, patches)
    there.add(reverted.files)
    written = asked(there.top, "write-tree")
    there.become("HEAD")
    return _UnpatchedCommit(written, reverted.patches, runtime)


def _planned(there: LinkedWorktree, patches: PatchSet, had: Sequence[str], runtime: str, ref: str) -> Plan:
    """Return the plan of the patches for the merge's result. Raise PlanConflictError if one conflicts."""
    planner = Planner(there.tree, patches, runtime)
    planned = planner.plan(had, only=True)
    left = describe_conflicts(planned.patches)
    if left:
        raise PlanConflictError(
            f"{left} after the merge of {ref}, so nothing was written",
            planned,
            advice="revert the patches that conflict, then try again",
        )
    return planner.combined_plan(planned, origin(there.tree, planner))


def _bases(there: LinkedWorktree, ref: str, other: str) -> list[str]:
    found = git(there.top, "merge-base", "--all", there.base, other).stdout.decode().split()
    if not found:
        raise TreeError(
            f"{ref} and this branch have unrelated histories, so nothing was changed",
            advice="name another ref",
        )
    return found


def _result(
    there: LinkedWorktree, ours: _UnpatchedCommit, theirs: _UnpatchedCommit, bases: Sequence[_UnpatchedCommit]
) -> str:
    """Return the tree of the merge, which git makes of commits with the unpatched trees."""
    below = [word for base in bases for word in ("-p", _commit(there, base))]
    there.switch(_commit(there, ours, *below))
    # Only the tree of this merge is used, so it is not committed.
    options = ("--quiet", "--no-commit", "--no-ff", "--no-verify-signatures", "--no-autostash")
    done = quietly(there.top, "merge", *options, _commit(there, theirs, *below))
    unmerged = asked(there.top, "diff", "--name-only", "--diff-filter=U").splitlines()
    if unmerged:
        raise UnmergedError(tuple(unmerged))
    if done.returncode != 0:
        raise TreeError(
            f"git merge failed ({error_line(done)}), so nothing was changed", advice="fix that and try again"
        )
    tree = asked(there.top, "write-tree")
    there.become("HEAD")
    return tree


def _commit(there: LinkedWorktree, unpatched: _UnpatchedCommit, *below: str) -> str:
    made = git(there.top, "commit-tree", unpatched.tree, *below, "-m", _TAKEN_BACK, named=True)
    return made.stdout.decode().strip()


def _conclude(there: LinkedWorktree, ref: str, other: str, result: str) -> None:
    """Commit the result as a merge of ``other``, as if its conflicts had been resolved by hand."""
    quietly(there.top, "merge", "--quiet", "--no-commit", "--no-ff", "--strategy=ours", other)
    there.become(result)
    into = f" into {there.branch.removeprefix('refs/heads/')}" if there.branch else ""
    there.accepted("commit", "--quiet", "--message", f"Merge {ref}{into}")


def _is_ancestor(tree: CheckoutTree, commit: str, of: str) -> bool:
    return git(tree.root, "merge-base", "--is-ancestor", commit, of).returncode == 0
