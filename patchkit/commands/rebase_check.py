"""Check how each patch's state changes when a tree moves to another commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchkit.commands.status import status
from patchkit.plan.cache import statuses
from patchkit.plan.status import State
from patchkit.series.backports import IN_TREE
from patchkit.tree.git import commit_of, place_of
from patchkit.tree.objects import GitRepository, GitTree

if TYPE_CHECKING:
    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree


@dataclass(frozen=True)
class Move:
    """A patch's states before (``now``) and after (``then``) a move, and a short description (``summary``).

    ``counts`` is whether the patch is in the tree or a default patch.
    """

    patch: str
    now: str
    then: str
    summary: str
    reason: str
    counts: bool = True


def rebase_check(tree: CheckoutTree, patches: PatchSet, ref: str) -> tuple[Move, ...]:
    """Return each patch's states before and after ``tree`` moves to ``ref``; nothing is written.

    A patch that is ``applied`` on ``ref`` was committed there by patchkit. Raise UsageError if there is no such ref.
    """
    with GitRepository(tree.root, "name a TREE in a git repository") as repository:
        commit_of(tree.root, ref)
        before = {each.patch.id: each for each in status(tree, patches)}
        after = statuses(GitTree(repository, ref, place_of(tree.package)), patches)
    return tuple(
        Move(
            each.patch.id,
            before[each.patch.id].state.value,
            each.state.value,
            _prospect(before[each.patch.id].state, each.state),
            each.reason,
            each.patch.default or before[each.patch.id].state in IN_TREE,
        )
        for each in after
    )


def _prospect(now: State, then: State) -> str:
    words = {
        State.UPSTREAM: "upstream has it there",
        State.UNKNOWN: "in place there",
        State.APPLIED: "already committed there",
        State.PENDING: "applies there",
        State.PARTIAL: "applies there, partly present already",
        State.CONFLICT: "conflicts there",
        State.NOT_APPLICABLE: "not applicable there",
    }
    # Only a change of patchkit's can be dropped.
    is_ours = then in {State.UPSTREAM, State.UNKNOWN} and now in {State.APPLIED, State.PARTIAL}
    return words[then] + (": drop yours" if is_ours else "")
