"""Finish or roll back an interrupted write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.series.move import restore
from patchkit.series.worktree import sweep
from patchkit.transaction import recover as recovering

if TYPE_CHECKING:
    from patchkit.transaction.recover import Recovery
    from patchkit.tree.tree import CheckoutTree


def recover(tree: CheckoutTree, *, roll_back: bool = False) -> Recovery:
    """Finish an interrupted write to ``tree``, or roll it back. Raise TreeError if a file was changed since.

    The write is finished if everything for it is on disk, unless ``roll_back`` is set.
    """
    sweep(tree)
    return restore(tree, roll_back=roll_back) or recovering.recover(tree, roll_back=roll_back)
