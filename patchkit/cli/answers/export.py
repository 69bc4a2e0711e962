"""The answer of ``export``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import LeftOutAnswer, States, TreeAnswer, states

if TYPE_CHECKING:
    from patchkit.commands.export import ExportResult
    from patchkit.tree.tree import CheckoutTree


class Export(States, frozen=True, kw_only=True):
    """The answer of ``export``: the files written, in order; ``left`` are the patches that do not fit."""

    files: tuple[str, ...]
    left: tuple[LeftOutAnswer, ...] = ()

    @classmethod
    def of(cls, tree: CheckoutTree, exported: ExportResult) -> Export:
        """Return the answer for a series."""
        return cls(
            tree=TreeAnswer.of(tree),
            patches=states(tree, exported.patches),
            files=tuple(map(str, exported.files)),
            left=LeftOutAnswer.each(exported.left),
        )
