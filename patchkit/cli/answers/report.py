"""The answer of ``status --format ledger``."""

from __future__ import annotations

from patchkit.cli.answers.base import Answer, TreeAnswer
from patchkit.series.backports import Backport  # noqa: TC001  # schemas are made of it


class Ledger(Answer, frozen=True, kw_only=True):
    """The answer of ``status --format ledger``: a row for each patch in the tree."""

    tree: TreeAnswer
    rows: tuple[Backport, ...]
