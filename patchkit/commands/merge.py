"""A branch with patches merges another with patches: without them, and then they are applied to the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.commands.commit import commit
from patchkit.commands.revert import revert
from patchkit.series.merge import merge as merging
from patchkit.transaction import revert as reverting

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.series.merge import Merged
    from patchkit.tree.tree import CheckoutTree


def merge(tree: CheckoutTree, patches: PatchSet, ref: str) -> Merged:
    """Merge ``ref`` into the branch of ``tree`` without the patches of either side, then apply those it had.

    ConflictError if the merge itself conflicts, which is left to be resolved; TreeError, and nothing written,
    if the tree has uncommitted changes.
    """
    had = reverting.recorded(tree)
    return merging(
        tree,
        ref,
        lambda: revert(tree, patches),
        lambda: commit(tree, patches, had, keep_going=True),
    )
