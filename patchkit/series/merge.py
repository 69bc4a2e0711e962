"""A branch with patches merges another with patches: without them, and then they are applied to the result.

The same change made twice, to two versions of a file, is what git cannot merge. So the patches come off here,
the other branch is merged as it was before its own patch commits, and the patches go on again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.errors import ConflictError, TreeError, UsageError
from patchkit.series.commit import Committed, require_committable
from patchkit.series.message import TRAILER
from patchkit.tree.git import git

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.tree.tree import CheckoutTree

_TAKEN_BACK = "Take patchkit's patches back for a merge"


@dataclass(frozen=True)
class Merged:
    """The commit that was merged, what was taken back before, and what was applied after."""

    merged: str
    reverted: tuple[str, ...]
    committed: Committed


def require_mergeable(tree: CheckoutTree) -> None:
    """Raise TreeError unless a merge can be begun now; nothing uncommitted may be mixed with it."""
    where = tree.root
    require_committable(tree, ())
    if git(where, "status", "--porcelain", "--untracked-files=no", personal=True).stdout:
        raise TreeError(f"{where} has uncommitted changes: commit or stash them, then try again.")


def commit_taken_back(tree: CheckoutTree, files: Sequence[str]) -> None:
    """Commit ``files`` as they are without the patches; TreeError if git refuses."""
    if files:
        names = [str(tree.package / file) for file in files]
        _do(tree, "add", "--all", "--", *names)
        _do(tree, "commit", "--quiet", "--message", _TAKEN_BACK)


def merge_stem(tree: CheckoutTree, ref: str, stem: str) -> None:
    """Merge ``stem``, which is ``ref`` without its patches; ConflictError if that conflicts, and it is left open."""
    done = git(tree.root, "merge", "--no-edit", "--quiet", stem, personal=True)
    if done.returncode != 0:
        raise ConflictError(
            f"{ref} conflicts with this branch also without any patch (git status names the files): resolve and "
            "commit the merge, then type patchkit apply --commit."
        )


def unpatched(tree: CheckoutTree, ref: str) -> str:
    """Return the newest commit of ``ref`` below the patch commits at its tip; UsageError if it has none."""
    form = f"--format=%H %(trailers:key={TRAILER},valueonly,separator=%x2C)"
    listed = git(tree.root, "log", "--first-parent", form, "--end-of-options", ref, "--")
    for line in listed.stdout.decode(errors="replace").splitlines():
        commit, _, patches = line.partition(" ")
        if not patches.strip():
            return commit
    raise UsageError(f"{ref} is no commit of {tree.root} to merge: git fetch it, or name another.")


def _do(tree: CheckoutTree, *arguments: str) -> None:
    done = git(tree.root, *arguments, personal=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise TreeError(
            f"git {arguments[0]} failed in {tree.root} ({said[0] if said else 'it did not say why'}): the patches "
            "are taken back and not committed; commit that, git merge, and patchkit apply --commit."
        )
