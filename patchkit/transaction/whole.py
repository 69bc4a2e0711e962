"""Require a tree without an interrupted write and without conflict markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from patchkit.transaction.unfinished import require_finished
from patchkit.transaction.write import require_settled, settled

if TYPE_CHECKING:
    from collections.abc import Callable

    from patchkit.tree.tree import CheckoutTree, ReadTree

_Answer = TypeVar("_Answer")


def require_whole(tree: CheckoutTree) -> None:
    """Raise TreeError if a write to ``tree`` was interrupted, or if it contains conflict markers."""
    require_settled(tree)
    require_finished(tree)


def whole(tree: CheckoutTree, answer: Callable[[ReadTree], _Answer]) -> _Answer:
    """Return what ``answer`` computes from the tree, as ``settled`` does.

    Raise TreeError if a write was interrupted, or if the tree contains conflict markers.
    """

    def checked(read: ReadTree) -> _Answer:
        require_finished(read)
        return answer(read)

    return settled(tree, checked)
