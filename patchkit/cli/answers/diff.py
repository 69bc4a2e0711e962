"""The answer of ``diff``."""

from __future__ import annotations

from patchkit.cli.answers.base import Answer, LeftOutAnswer, TreeAnswer
from patchkit.plan.conflict import Conflict  # noqa: TC001  # schemas are made of it


class FileDiff(Answer, frozen=True, kw_only=True):
    """The change of a file as a unified diff."""

    file: str
    patches: tuple[str, ...]
    diff: str


class Diff(Answer, frozen=True, kw_only=True):
    """The answer of ``diff``; ``left`` are the patches that are left out because they do not fit."""

    tree: TreeAnswer
    files: tuple[FileDiff, ...]
    conflicts: tuple[Conflict, ...]
    left: tuple[LeftOutAnswer, ...] = ()
