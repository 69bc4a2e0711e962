"""The answer of ``apply --continue`` and ``apply --abort``."""

from __future__ import annotations

from patchkit.cli.answers.base import Answer, TreeAnswer


class Recover(Answer, frozen=True, kw_only=True):
    """The answer of ``apply --continue`` and ``--abort``; ``action`` is finished, rolled-back or nothing."""

    tree: TreeAnswer
    action: str
    files: tuple[str, ...]
