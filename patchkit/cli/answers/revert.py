"""What ``revert`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, Left, TreeAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.transaction.revert import Reverted
    from patchkit.tree.tree import CheckoutTree


class Revert(Answer, frozen=True, kw_only=True):
    """``revert``; ``left`` are the patches that it left with ``--keep-going``."""

    tree: TreeAnswer
    reverted: tuple[str, ...]
    changed_files: tuple[str, ...]
    left: tuple[Left, ...] = ()

    @classmethod
    def of(cls, tree: CheckoutTree, reverted: Reverted, left: Mapping[str, str]) -> Revert:
        """Return the answer for what was taken back, and for what was ``left``, with the reasons."""
        return cls(
            tree=TreeAnswer.of(tree),
            reverted=reverted.patches,
            changed_files=reverted.files,
            left=Left.each(left),
        )
