"""A tree is planned for, verified and audited only when nothing that patchkit began in it is half done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.transaction.unfinished import require_finished
from patchkit.transaction.write import require_settled

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


def require_whole(tree: CheckoutTree) -> None:
    """Raise TreeError if a write to ``tree`` is pending or a conflict of an earlier one is not finished."""
    require_settled(tree)
    require_finished(tree)
