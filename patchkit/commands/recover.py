"""An interrupted write is finished or taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.series.stopped import put_back
from patchkit.series.worktree import sweep
from patchkit.transaction import recover as recovering

if TYPE_CHECKING:
    from patchkit.transaction.recover import Recovery
    from patchkit.tree.tree import CheckoutTree


def recover(tree: CheckoutTree) -> Recovery:
    """Finish an interrupted write to ``tree`` or take it back; TreeError if a file was changed since."""
    sweep(tree)
    return put_back(tree) or recovering.recover(tree)
