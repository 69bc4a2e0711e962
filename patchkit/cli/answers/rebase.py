"""The answer of ``rebase``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from patchkit.cli.answers.base import Answer, LeftOutAnswer, TreeAnswer
from patchkit.cli.answers.port import Change
from patchkit.series.commit import Commit  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from patchkit.commands.merge import BranchMerge
    from patchkit.commands.port import PortedChange
    from patchkit.commands.rebase_check import Move
    from patchkit.tree.tree import CheckoutTree


class MovedPatch(Answer, frozen=True, kw_only=True):
    """A patch's states before and after the move, and a short description."""

    id: str
    now: str
    then: str
    reason: str
    summary: str


class Rebase(Answer, frozen=True, kw_only=True):
    """The answer of ``rebase``; ``merged`` and ``commits`` are those of ``--merge``.

    ``left`` are the patches that conflict with the merge, which were reverted and not applied again. ``ports`` are the
    outcomes that the ported commits of the tree would have there.
    """

    tree: TreeAnswer
    onto: str
    patches: tuple[MovedPatch, ...]
    ports: tuple[Change, ...]
    merged: str | UnsetType = UNSET
    commits: tuple[Commit, ...] | UnsetType = UNSET
    left: tuple[LeftOutAnswer, ...] | UnsetType = UNSET

    @classmethod
    def made_of(
        cls,
        tree: CheckoutTree,
        ref: str,
        moves: Sequence[Move],
        ports: Sequence[PortedChange],
        merged: BranchMerge | None,
    ) -> Rebase:
        """Return the answer for a move and, with ``--merge``, for the merge."""
        patches = (
            MovedPatch.of(
                move, id=move.patch, now=move.now.state, then=move.then.state, reason=move.then.reason
            )
            for move in moves
        )
        return cls.of(
            merged,
            tree=tree,
            onto=ref,
            patches=tuple(patches),
            ports=tuple(map(Change.made_of, ports)),
            left=LeftOutAnswer.each(merged.left_out) if merged else UNSET,
        )
