"""An interrupted write is finished or taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.series.stopped import put_back
from patchkit.series.worktree import sweep
from patchkit.transaction import recover as recovering

if TYPE_CHECKING:
    from patchkit.transaction.recover import Recovery
    from patchkit.tree.tree import CheckoutTree


def recover(tree: CheckoutTree, *, back: bool = False) -> Recovery:
    """Finish an interrupted write to ``tree`` or take it back; TreeError if a file was changed since.

    It is finished if everything that it takes is on disk, and with ``back`` it is taken back all the same.
    """
    sweep(tree)
    return put_back(tree) or recovering.recover(tree, back=back)
