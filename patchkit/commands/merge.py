"""A branch with patches merges another with patches: without them, and then they are applied to the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.commands.commit import commit
from patchkit.commands.revert import revert
from patchkit.series.merge import Merged, commit_taken_back, merge_stem, require_mergeable, unpatched
from patchkit.transaction.revert import recorded

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


def merge(tree: CheckoutTree, patches: PatchSet, ref: str) -> Merged:
    """Merge ``ref`` into the branch of ``tree`` without the patches of either side, then apply those it had.

    Each of the three is committed. ConflictError if the merge itself conflicts: it is left for a person to resolve,
    and ``patchkit apply --commit`` ends it. TreeError, and nothing written, if the tree has uncommitted changes.
    """
    had = recorded(tree)
    require_mergeable(tree)
    stem = unpatched(tree, ref)
    reverted = revert(tree, patches)
    commit_taken_back(tree, reverted.files)
    merge_stem(tree, ref, stem)
    return Merged(stem, reverted.patches, commit(tree, patches, had, keep_going=True))
