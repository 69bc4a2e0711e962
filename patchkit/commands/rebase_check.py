"""What becomes of each patch when a tree moves to another commit, before it is moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.commands.status import status
from patchkit.plan.cache import statuses
from patchkit.series.backports import IN_TREE
from patchkit.tree.git import GitRepository, GitTree, place_of

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class Move:
    """What becomes of a patch when a tree moves: its state ``now`` and ``then``, and that in words.

    One ``counts`` that the tree has, or that is on without being named.
    """

    patch: str
    now: str
    then: str
    said: str
    reason: str
    counts: bool = True


def rebase_check(tree: CheckoutTree, patches: PatchSet, ref: str) -> tuple[Move, ...]:
    """Return what becomes of each patch when ``tree`` moves to ``ref`` of its repository; only reads.

    What is ``applied`` on ``ref`` was committed there by patchkit. TreeError for a ref that is none.
    """
    words = {
        "upstream": "upstream has it there: drop yours",
        "applied": "its commit is there already",
        "pending": "applies there",
        "partial": "applies there, part of it is there already",
        "conflict": "conflicts there",
        "not-applicable": "not for that tree",
    }
    before = {said.patch.id: said for said in status(tree, patches)}
    with GitRepository(tree.root) as repository:
        after = statuses(GitTree(repository, ref, place_of(tree.package)), patches)
    return tuple(
        Move(
            said.patch.id,
            before[said.patch.id].state.value,
            said.state.value,
            words[said.state.value],
            said.reason,
            said.patch.default or before[said.patch.id].state in IN_TREE,
        )
        for said in after
    )
