"""The answer of ``revert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, LeftOutAnswer, TreeAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.errors import PatchkitError
    from patchkit.transaction.revert import RevertResult
    from patchkit.tree.tree import CheckoutTree


class LeftPatch(LeftOutAnswer, frozen=True, kw_only=True):
    """A patch that was left in place, the reason, and a unified diff of what a person changed if that is why."""

    difference: str = ""


class Revert(Answer, frozen=True, kw_only=True):
    """The answer of ``revert``; ``left`` are the patches that ``--keep-going`` left in place.

    ``ports`` are the ports that stay without being named: committed ones, and others that conflict with other changes.
    ``commit`` is the commit of ``--commit``. ``difference`` is a unified diff of what a person changed in code that
    patchkit wrote, because of which nothing was reverted.
    """

    tree: TreeAnswer
    reverted: tuple[str, ...]
    changed_files: tuple[str, ...]
    left: tuple[LeftPatch, ...] = ()
    ports: tuple[str, ...] = ()
    commit: str = ""
    difference: str = ""

    @classmethod
    def refused(cls, tree: CheckoutTree, difference: str) -> Revert:
        """Return the answer where nothing was reverted because of what a person changed."""
        return cls(tree=TreeAnswer.of(tree), reverted=(), changed_files=(), difference=difference)

    @classmethod
    def of(
        cls,
        tree: CheckoutTree,
        reverted: RevertResult,
        left: Mapping[str, PatchkitError],
        ports: tuple[str, ...],
        commit: str,
    ) -> Revert:
        """Return the answer for reverted patches, those that were left, with the errors, ports and the commit."""
        return cls(
            tree=TreeAnswer.of(tree),
            reverted=reverted.patches,
            changed_files=reverted.files,
            left=tuple(
                LeftPatch(patch=name, reason=str(error), difference=error.difference)
                for name, error in left.items()
            ),
            ports=ports,
            commit=commit,
        )
