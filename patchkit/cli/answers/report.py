"""The answer of ``status --format ledger``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, TreeAnswer
from patchkit.series.backports import Backport  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree


class Report(Answer, frozen=True, kw_only=True):
    """The answer of ``status --format ledger``: a row for each patch in the tree."""

    tree: TreeAnswer
    rows: tuple[Backport, ...]

    @classmethod
    def of(cls, tree: CheckoutTree, rows: tuple[Backport, ...]) -> Report:
        """Return the answer for the rows."""
        return cls(tree=TreeAnswer.of(tree), rows=rows)
