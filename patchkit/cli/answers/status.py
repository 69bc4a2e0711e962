"""The answer of ``status``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import States, TreeAnswer, states

if TYPE_CHECKING:
    from patchkit.plan.status import TreeStatus
    from patchkit.tree.tree import CheckoutTree


class Status(States, frozen=True, kw_only=True):
    """The answer of ``status``; ``unknown`` are the ids of patches in the tree that are not loaded.

    ``ports`` are the names of the ported changes in it.
    """

    unknown: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()

    @classmethod
    def of(cls, tree: CheckoutTree, status: TreeStatus) -> Status:
        """Return the answer for a tree."""
        return cls(
            tree=TreeAnswer.of(tree),
            patches=states(tree, status.patches),
            unknown=status.unknown,
            ports=status.ports,
        )
