"""The answers of ``status``, and of ``status --format ledger``."""

from __future__ import annotations

import msgspec

from patchkit.cli.answers.base import Answer, States, TreeAnswer
from patchkit.series.backports import Backport  # noqa: TC001  # schemas are made of it


class Status(States, frozen=True, kw_only=True):
    """The answer of ``status``; ``unknown`` are the ids of patches in the tree that are not loaded.

    ``ports`` are the names of the ported changes in it, ``absent_files`` the files of a port of which it has nothing.
    """

    unknown: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    absent_files: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class Ledger(Answer, frozen=True, kw_only=True):
    """The answer of ``status --format ledger``: a row for each patch in the tree."""

    tree: TreeAnswer
    rows: tuple[Backport, ...]
