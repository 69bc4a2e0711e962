"""The answer of ``revert``."""

from __future__ import annotations

from patchkit.cli.answers.base import Answer, LeftOutAnswer, TreeAnswer


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
