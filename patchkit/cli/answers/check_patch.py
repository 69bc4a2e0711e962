"""The answer of ``test`` without trees."""

from __future__ import annotations

from patchkit.cli.answers.base import Answer
from patchkit.commands.check import CheckedPatch  # noqa: TC001  # schemas are made of it


class CheckPatch(Answer, frozen=True, kw_only=True):
    """The answer of ``test`` without trees."""

    patches: tuple[CheckedPatch, ...]
