"""Check how each patch's state changes when a tree moves to another commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from patchkit.commands.port import port_matrix
from patchkit.commands.status import status
from patchkit.plan.cache import statuses
from patchkit.plan.status import LEFT_OUT, OPT_IN, State
from patchkit.series.backports import IN_TREE
from patchkit.series.source import Source
from patchkit.transaction.edited import judged_at
from patchkit.transaction.ports import ports_in
from patchkit.transaction.revert import recorded_ports
from patchkit.tree.git import commit_of, git, place_of
from patchkit.tree.objects import GitRepository, GitTree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.commands.port import PortedChange
    from patchkit.patchset.select import PatchSet
    from patchkit.plan.status import PatchStatus
    from patchkit.tree.tree import CheckoutTree


_WORDS: dict[str, str] = {
    State.UPSTREAM: "upstream has it there",
    State.UNKNOWN: "in place there",
    State.APPLIED: "already committed there",
    State.EDITED: "committed there, and edited since",
    State.PENDING: "applies there",
    State.PARTIAL: "applies there, partly present already",
    State.CONFLICT: "conflicts there",
    State.NOT_APPLICABLE: "not applicable there",
    OPT_IN: "opt-in: applies there by name",
    LEFT_OUT: "left out by the configuration",
}
"""What becomes of a patch, by the label of its state after the move."""


@dataclass(frozen=True)
class Move:
    """A patch's statuses before (``now``) and after (``then``) a move."""

    now: PatchStatus
    then: PatchStatus

    @property
    def patch(self) -> str:
        """The patch's id."""
        return self.now.patch.id

    @property
    def counts(self) -> bool:
        """Whether the patch is in the tree or a default patch."""
        return self.now.patch.default or self.now.state in IN_TREE

    @property
    def summary(self) -> str:
        """What becomes of the patch, in a few words."""
        # What the tree has is applied again after the move, and only a change of patchkit's can be dropped.
        is_made = self.now.state in {State.APPLIED, State.EDITED, State.PARTIAL}
        words = _WORDS[self.then.state if is_made else self.then.label]
        return (
            f"{words}: drop yours"
            if is_made and self.then.state in {State.UPSTREAM, State.UNKNOWN}
            else words
        )


def ports_there(tree: CheckoutTree, ref: str) -> tuple[PortedChange, ...]:
    """Return the outcome that the ported commits of ``tree`` would have on ``ref``; of those that it has, none.

    Raise UsageError if there is no such ref.
    """
    recorded = recorded_ports(tree)
    ports = [port for port in ports_in(tree.package) if port.name in recorded] if recorded else []
    own = git(tree.root, "rev-list", f"{commit_of(tree.root, ref)}..HEAD", "--").stdout.decode().split()
    names = {port.commit: port.name for port in ports if port.commit in own}
    if not names:
        return ()
    with Source(list(names), "", tree.root) as source:
        (result,) = port_matrix(source, (ref,))
    ids = {change.change.facts.id: names[change.change.facts.upstream_commit] for change in result.changes}
    return tuple(_named(change, ids) for change in result.changes)


def _named(port: PortedChange, ids: Mapping[str, str]) -> PortedChange:
    """Return the outcome of a commit with the names under which the tree has it, and those that it needs."""
    facts = replace(port.change.facts, id=ids[port.change.facts.id])
    needs = tuple(ids[need] for need in port.needs)
    return replace(port, change=replace(port.change, facts=facts), needs=needs)


def rebase_check(tree: CheckoutTree, patches: PatchSet, ref: str) -> tuple[Move, ...]:
    """Return each patch's states before and after ``tree`` moves to ``ref``; nothing is written.

    A patch that is ``applied`` on ``ref`` was committed there by patchkit. Raise UsageError if there is no such ref.
    """
    with GitRepository(tree.root, "name a TREE in a git repository") as repository:
        commit_of(tree.root, ref)
        before = {status_before.patch.id: status_before for status_before in status(tree, patches)}
        there = GitTree(repository, ref, place_of(tree.package))
        after = judged_at(there, statuses(there, patches))
    return tuple(Move(before[status_after.patch.id], status_after) for status_after in after)
