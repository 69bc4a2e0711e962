"""What ``revert`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, TreeAnswer

if TYPE_CHECKING:
    from patchkit.transaction.revert import Reverted
    from patchkit.tree.tree import CheckoutTree


class Revert(Answer, frozen=True, kw_only=True):
    """``revert``."""

    tree: TreeAnswer
    reverted: tuple[str, ...]
    changed_files: tuple[str, ...]

    @classmethod
    def of(cls, tree: CheckoutTree, reverted: Reverted) -> Revert:
        """Return the answer for what was taken back."""
        return cls(tree=TreeAnswer.of(tree), reverted=reverted.patches, changed_files=reverted.files)
