"""The answer of ``test`` without trees."""

from __future__ import annotations

from patchkit.cli.answers.base import Answer


class CheckedFolder(Answer, frozen=True, kw_only=True):
    """A patch folder: the number of its examples that were run, and its faults."""

    patch: str
    folder: str
    examples: int
    faults: tuple[str, ...]


class CheckPatch(Answer, frozen=True, kw_only=True):
    """The answer of ``test`` without trees."""

    patches: tuple[CheckedFolder, ...]
