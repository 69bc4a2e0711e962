"""The answer of ``apply --continue`` and ``apply --abort``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, TreeAnswer

if TYPE_CHECKING:
    from patchkit.transaction.recover import Recovery
    from patchkit.tree.tree import CheckoutTree


class Recover(Answer, frozen=True, kw_only=True):
    """The answer of ``apply --continue`` and ``--abort``; ``action`` is finished, rolled-back or nothing."""

    tree: TreeAnswer
    action: str
    files: tuple[str, ...]

    @classmethod
    def of(cls, tree: CheckoutTree, recovery: Recovery) -> Recover:
        """Return the answer for an interrupted write."""
        return cls(tree=TreeAnswer.of(tree), action=recovery.action, files=recovery.files)
