"""The answer of ``rebase``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from patchkit.cli.answers.base import Answer, CommitAnswer, LeftOutAnswer, TreeAnswer
from patchkit.cli.answers.port import Change

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    @classmethod
    def of(cls, move: Move) -> MovedPatch:
        """Return the answer for a patch."""
        return cls(
            id=move.patch,
            now=move.now.state.value,
            then=move.then.state.value,
            reason=move.then.reason,
            summary=move.summary,
        )


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
    commits: tuple[CommitAnswer, ...] | UnsetType = UNSET
    left: tuple[LeftOutAnswer, ...] | UnsetType = UNSET

    @classmethod
    def of(
        cls,
        tree: CheckoutTree,
        ref: str,
        moves: Iterable[Move],
        ports: Iterable[PortedChange] = (),
        merged: BranchMerge | None = None,
    ) -> Rebase:
        """Return the answer for a move and, with ``--merge``, for the merge."""
        return cls(
            tree=TreeAnswer.of(tree),
            onto=ref,
            patches=tuple(map(MovedPatch.of, moves)),
            ports=tuple(map(Change.of, ports)),
            merged=merged.merged if merged else UNSET,
            commits=tuple(map(CommitAnswer.of, merged.commits)) if merged else UNSET,
            left=LeftOutAnswer.each(merged.left_out) if merged else UNSET,
        )
