"""Require a tree without an interrupted write and without conflict markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.transaction.unfinished import require_finished
from patchkit.transaction.write import require_settled

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


def require_whole(tree: CheckoutTree) -> None:
    """Raise TreeError if a write to ``tree`` was interrupted, or if it contains conflict markers."""
    require_settled(tree)
    require_finished(tree)
