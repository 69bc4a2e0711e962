"""Check how each patch's state changes when a tree moves to another commit."""

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
    """A patch's states before (``now``) and after (``then``) a move, and a short description (``said``).

    ``counts`` is whether the patch is in the tree or a default patch.
    """

    patch: str
    now: str
    then: str
    said: str
    reason: str
    counts: bool = True


def rebase_check(tree: CheckoutTree, patches: PatchSet, ref: str) -> tuple[Move, ...]:
    """Return each patch's states before and after ``tree`` moves to ``ref``; nothing is written.

    A patch that is ``applied`` on ``ref`` was committed there by patchkit. Raise TreeError if there is no such ref.
    """
    words = {
        "upstream": "upstream has it there: drop yours",
        "applied": "already committed there",
        "pending": "applies there",
        "partial": "applies there, partly present already",
        "conflict": "conflicts there",
        "not-applicable": "not applicable there",
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
