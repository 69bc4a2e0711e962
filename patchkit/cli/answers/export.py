"""What ``export`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import States, TreeAnswer, states

if TYPE_CHECKING:
    from patchkit.commands.export import Exported
    from patchkit.tree.tree import CheckoutTree


class Export(States, frozen=True, kw_only=True):
    """``export``: the files written, in order."""

    files: tuple[str, ...]

    @classmethod
    def of(cls, tree: CheckoutTree, exported: Exported) -> Export:
        """Return the answer for a series."""
        return cls(
            tree=TreeAnswer.of(tree),
            patches=states(tree, exported.patches),
            files=tuple(map(str, exported.files)),
        )
