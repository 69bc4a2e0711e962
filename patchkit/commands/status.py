"""Each patch's state on a tree, with what a person made by hand and what was left for one to finish."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.plan import cache
from patchkit.transaction.resolve import by_hand
from patchkit.transaction.revert import recorded
from patchkit.transaction.unfinished import as_left, before_markers, unfinished
from patchkit.transaction.write import require_settled
from patchkit.tree.tree import OverlayTree

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus, Standing
    from patchkit.tree.tree import CheckoutTree


def status(tree: CheckoutTree, patches: PatchSet) -> tuple[PatchStatus, ...]:
    """Return each patch's status on ``tree``; TreeError if a write to it is pending or a file is no Python."""
    return standing(tree, patches).patches


def standing(tree: CheckoutTree, patches: PatchSet) -> Standing:
    """Return each patch's status on ``tree``, and which patches it or its ledger names that are not at hand.

    TreeError if a write to it is pending or a file is no Python.
    """
    require_settled(tree)
    before = before_markers(tree)
    found = cache.standing(OverlayTree(tree, before) if before else tree, patches)
    hands: frozenset[tuple[str, str]] = frozenset()
    unknown = list(found.unknown)
    with suppress(TreeError):  # What is wrong with a ledger is for verify to say.
        hands = by_hand(tree)
        unknown += [name for name in recorded(tree) if name not in {*patches.ids, *found.unknown}]
    left = as_left(found.patches, hands, unfinished(tree) if before else {})
    return replace(found, patches=left, unknown=tuple(unknown))
