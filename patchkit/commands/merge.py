"""A branch with patches merges another with patches: without them, and then they are applied to the result.

The same change made twice, to two versions of a file, is what git cannot merge. So the patches come off on either
side, in a commit of its own, the two are merged, and the patches of both go on again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.commands.revert import revert
from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.plan import vendor
from patchkit.plan.planner import Planner
from patchkit.plan.refusal import PlanConflictError, describe_conflicts
from patchkit.series.commit import Commit, commits, require_committable
from patchkit.series.worktree import asked, linked, quietly, said
from patchkit.transaction import adopt
from patchkit.transaction.origins import origin
from patchkit.transaction.revert import in_code
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import Plan
    from patchkit.series.worktree import Linked
    from patchkit.tree.tree import CheckoutTree

_TAKEN_BACK = "Take patchkit's patches back for a merge"


class UnmergedError(ConflictError):
    """A merge left conflicts in ``files``."""

    def __init__(self, files: tuple[str, ...]) -> None:
        super().__init__(f"{', '.join(files)}: conflicts.")
        self.files = files


@dataclass(frozen=True)
class Merged:
    """The commit that was merged, what was taken back for it on either side, and the commits of what was applied.

    ``is_new`` is whether the branch did not have that commit before.
    """

    merged: str
    reverted: tuple[str, ...]
    commits: tuple[Commit, ...]
    is_new: bool = True


def merge(tree: CheckoutTree, patches: PatchSet, ref: str) -> Merged:
    """Merge ``ref`` into the branch of ``tree`` without the patches of either side, then apply those that either had.

    TreeError if the tree has uncommitted changes, ConflictError if the merge itself conflicts or a patch does
    after it, RefusedCommitError if a hook refuses. Branch, index, files and ledger change when all of it is
    committed, and not before.
    """
    require_committable(tree)
    named = git(tree.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if named.returncode != 0:
        raise UsageError(f"{ref} is no commit of {tree.root} to merge: git fetch it, or name another.")
    other = named.stdout.decode().strip()
    if asked(tree.root, "status", "--porcelain", "--untracked-files=no"):
        raise TreeError(f"{tree.root} has uncommitted changes: commit or stash them, then try again.")
    if _is_ancestor(tree, other, "HEAD"):
        return Merged(other, (), (), is_new=False)
    with linked(tree, f"patchkit rebase --onto {ref} --merge") as there:
        if _is_ancestor(tree, "HEAD", other):
            there.switch(other)
            return Merged(other, (), ())
        ours = _unpatched(tree, there, there.base, patches)
        try:
            theirs = _unpatched(tree, there, other, patches)
            below = [_unpatched(tree, there, base, patches) for base in _bases(there, ref, other)]
            result = _result(there, ours, theirs, below)
        except UnmergedError as error:
            raise ConflictError(
                f"{ref} conflicts with this branch also without any patch, in {', '.join(error.files)}, so nothing was "
                f"changed: patchkit revert, commit that, git merge {ref}, resolve it, then patchkit apply --commit."
            ) from None
        except ConflictError as error:
            raise ConflictError(f"{ref}: {error}") from error
        there.switch(there.base)
        there.become(ours.tree)
        if ours.tree != asked(there.top, "rev-parse", "HEAD^{tree}"):
            there.accepted("commit", "--quiet", "--message", _TAKEN_BACK)
        _conclude(there, ref, other, result)
        adopt.copy(tree, there.tree)
        had = tuple(dict.fromkeys((*ours.patches, *theirs.patches)))
        if not had:
            return Merged(other, (), ())
        runtime = (ours if ours.patches else theirs).runtime
        made = commits(there, _planned(there, patches, had, runtime, ref), patches, runtime)
    return Merged(other, had, made)


@dataclass(frozen=True)
class _Unpatched:
    """A commit's tree without patches, those that were taken back for it, and where they had their runtime."""

    tree: str
    patches: tuple[str, ...]
    runtime: str


def _unpatched(tree: CheckoutTree, there: Linked, commit: str, patches: PatchSet) -> _Unpatched:
    """Take back the patches of a commit; ConflictError if that cannot be done."""
    there.switch(commit)
    adopt.copy(tree, there.tree)
    runtime = "vendored" if vendor.is_vendored(there.tree) else "import"
    if not in_code(there.tree, Planner(there.tree, patches)):
        return _Unpatched(asked(there.top, "rev-parse", "HEAD^{tree}"), (), runtime)
    reverted = revert(there.tree, patches)
    there.add(reverted.files)
    written = asked(there.top, "write-tree")
    there.become("HEAD")
    return _Unpatched(written, reverted.patches, runtime)


def _planned(there: Linked, patches: PatchSet, had: Sequence[str], runtime: str, ref: str) -> Plan:
    """Return the plan of the patches for what the merge made; PlanConflictError if one conflicts with that."""
    planner = Planner(there.tree, patches, runtime)
    planned = planner.plan(had, only=True)
    left = describe_conflicts(planned.patches)
    if left:
        raise PlanConflictError(
            f"{left} as {ref} makes it, so nothing was written: revert what conflicts, or write it by hand "
            "there, then try again.",
            planned,
        )
    return planner.together(planned, origin(there.tree, planner))


def _bases(there: Linked, ref: str, other: str) -> list[str]:
    found = git(there.top, "merge-base", "--all", there.base, other).stdout.decode().split()
    if not found:
        raise TreeError(
            f"{ref} has unrelated histories, as git calls it, so nothing was changed: name another."
        )
    return found


def _result(there: Linked, ours: _Unpatched, theirs: _Unpatched, bases: Sequence[_Unpatched]) -> str:
    """Return the tree to which the two merge; git does it on commits that lead from one unpatched tree to another."""
    below = [word for base in bases for word in ("-p", _commit(there, base))]
    there.switch(_commit(there, ours, *below))
    # What a merge of these says is nobody's: it is asked for the tree alone.
    options = ("--quiet", "--no-commit", "--no-ff", "--no-verify-signatures", "--no-autostash")
    done = quietly(there.top, "merge", *options, _commit(there, theirs, *below))
    unmerged = asked(there.top, "diff", "--name-only", "--diff-filter=U").splitlines()
    if unmerged:
        raise UnmergedError(tuple(unmerged))
    if done.returncode != 0:
        raise TreeError(f"git merge failed ({said(done)}): nothing was changed; mend that and try again.")
    tree = asked(there.top, "write-tree")
    there.become("HEAD")
    return tree


def _commit(there: Linked, unpatched: _Unpatched, *below: str) -> str:
    made = git(there.top, "commit-tree", unpatched.tree, *below, "-m", _TAKEN_BACK, named=True)
    return made.stdout.decode().strip()


def _conclude(there: Linked, ref: str, other: str, result: str) -> None:
    """Commit the result as a merge of another commit, as a person does who has resolved one."""
    quietly(there.top, "merge", "--quiet", "--no-commit", "--no-ff", "--strategy=ours", other)
    there.become(result)
    into = f" into {there.branch.removeprefix('refs/heads/')}" if there.branch else ""
    there.accepted("commit", "--quiet", "--message", f"Merge {ref}{into}")


def _is_ancestor(tree: CheckoutTree, commit: str, of: str) -> bool:
    return git(tree.root, "merge-base", "--is-ancestor", commit, of).returncode == 0
