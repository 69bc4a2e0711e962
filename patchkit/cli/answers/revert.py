"""The answer of ``revert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, LeftOutAnswer, TreeAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from patchkit.transaction.revert import RevertResult
    from patchkit.tree.tree import CheckoutTree


class Revert(Answer, frozen=True, kw_only=True):
    """The answer of ``revert``; ``left`` are the patches that ``--keep-going`` left in place.

    ``ports`` are the ports that stay without being named: committed ones, and others that conflict with other changes.
    ``commit`` is the commit of ``--commit``.
    """

    tree: TreeAnswer
    reverted: tuple[str, ...]
    changed_files: tuple[str, ...]
    left: tuple[LeftOutAnswer, ...] = ()
    ports: tuple[str, ...] = ()
    commit: str = ""

    @classmethod
    def of(
        cls,
        tree: CheckoutTree,
        reverted: RevertResult,
        left: Mapping[str, str],
        ports: tuple[str, ...],
        commit: str,
    ) -> Revert:
        """Return the answer for reverted patches, those that were left, with the reasons, ports and the commit."""
        return cls(
            tree=TreeAnswer.of(tree),
            reverted=reverted.patches,
            changed_files=reverted.files,
            left=LeftOutAnswer.each(left),
            ports=ports,
            commit=commit,
        )
