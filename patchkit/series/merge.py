"""A branch with patches merges another with patches: without them, and then they are applied to the result.

The same change made twice, to two versions of a file, is what git cannot merge. So the patches come off on either
side, in a commit of its own, the two are merged, and the patches of both go on again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.plan import vendor
from patchkit.series.commit import Commit, commits, require_committable
from patchkit.series.worktree import UnmergedError, asked, linked
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from patchkit.plan.status import Plan
    from patchkit.series.worktree import Linked
    from patchkit.transaction.revert import Reverted
    from patchkit.tree.tree import CheckoutTree

    Planned = Callable[[CheckoutTree, Sequence[str], str], Plan]

_TAKEN_BACK = "Take patchkit's patches back for a merge"


@dataclass(frozen=True)
class Merged:
    """The commit that was merged, what was taken back for it on either side, and the commits of what was applied.

    ``is_new`` is whether the branch did not have that commit before.
    """

    merged: str
    reverted: tuple[str, ...]
    commits: tuple[Commit, ...]
    is_new: bool = True


def merge(
    tree: CheckoutTree, ref: str, take_back: Callable[[CheckoutTree], Reverted], plan: Planned, digest: str
) -> Merged:
    """Merge ``ref`` without patches into the branch of ``tree`` without patches, and apply those that either had.

    ``take_back`` reverts all patches of a tree, ``plan`` plans some with the runtime in one of its places.
    TreeError if the tree has uncommitted changes, ConflictError if the merge itself conflicts or a patch does
    after it, RefusedCommitError if a hook refuses. Nothing has changed then.
    """
    require_committable(tree)
    named = git(tree.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if named.returncode != 0:
        raise UsageError(f"{ref} is no commit of {tree.root} to merge: git fetch it, or name another.")
    other = named.stdout.decode().strip()
    if asked(tree.root, "status", "--porcelain", "--untracked-files=no"):
        raise TreeError(f"{tree.root} has uncommitted changes: commit or stash them, then try again.")
    if git(tree.root, "merge-base", "--is-ancestor", other, "HEAD").returncode == 0:
        return Merged(other, (), (), is_new=False)
    branch = asked(tree.root, "rev-parse", "--abbrev-ref", "HEAD")
    with linked(tree, f"patchkit rebase-check --onto {ref} --merge") as there:
        ours = _unpatched(there, take_back)
        there.switch(other)
        try:
            theirs = _unpatched(there, take_back)
        except ConflictError as error:
            raise ConflictError(f"{ref}: {error}") from error
        there.switch(ours.commit)
        _merge(there, ref, theirs.commit, "" if branch == "HEAD" else branch)
        had = tuple(dict.fromkeys((*ours.patches, *theirs.patches)))
        made: tuple[Commit, ...] = ()
        if had:
            runtime = (ours if ours.patches else theirs).runtime
            made = commits(
                there, plan(there.tree, had, runtime), lambda t, name: plan(t, (name,), runtime), digest
            )
    return Merged(other, had, made)


@dataclass(frozen=True)
class _Unpatched:
    """A commit without patches, those that were taken back for it, and where they had their runtime."""

    commit: str
    patches: tuple[str, ...]
    runtime: str


def _unpatched(there: Linked, take_back: Callable[[CheckoutTree], Reverted]) -> _Unpatched:
    runtime = "vendored" if vendor.is_vendored(there.tree) else "import"
    reverted = take_back(there.tree)
    if reverted.files:
        there.commit(reverted.files, _TAKEN_BACK)
    return _Unpatched(there.head, reverted.patches, runtime)


def _merge(there: Linked, ref: str, commit: str, branch: str) -> None:
    message = f"Merge {ref}{' into ' if branch else ''}{branch}"
    try:
        there.accepted("merge", "--quiet", "--ff", "--message", message, commit)
    except UnmergedError as error:
        raise ConflictError(
            f"{ref} conflicts with this branch also without any patch, in {', '.join(error.files)}, so nothing was "
            f"changed: patchkit revert, commit that, git merge {ref}, resolve it, then patchkit apply --commit."
        ) from None
