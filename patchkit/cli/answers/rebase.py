"""What ``rebase`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from patchkit.cli.answers.base import Answer, Made, TreeAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.commands.merge import Merged
    from patchkit.commands.rebase_check import Move
    from patchkit.tree.tree import CheckoutTree


class MovedPatch(Answer, frozen=True, kw_only=True):
    """A patch now and after the move, and that in words."""

    id: str
    now: str
    then: str
    reason: str
    said: str

    @classmethod
    def of(cls, move: Move) -> MovedPatch:
        """Return the answer for what becomes of a patch."""
        return cls(id=move.patch, now=move.now, then=move.then, reason=move.reason, said=move.said)


class Rebase(Answer, frozen=True, kw_only=True):
    """``rebase``; ``merged`` and ``commits`` with ``--merge``."""

    tree: TreeAnswer
    onto: str
    patches: tuple[MovedPatch, ...]
    merged: str | UnsetType = UNSET
    commits: tuple[Made, ...] | UnsetType = UNSET

    @classmethod
    def of(cls, tree: CheckoutTree, ref: str, moves: Iterable[Move], merged: Merged | None = None) -> Rebase:
        """Return the answer for a move, and for the merge if there was one."""
        return cls(
            tree=TreeAnswer.of(tree),
            onto=ref,
            patches=tuple(map(MovedPatch.of, moves)),
            merged=merged.merged if merged else UNSET,
            commits=tuple(map(Made.of, merged.commits)) if merged else UNSET,
        )
