"""The answer of ``new``."""

from __future__ import annotations

from patchkit.cli.answers.base import Answer


class New(Answer, frozen=True, kw_only=True):
    """The answer of ``new``; ``exact`` is whether the patch makes the whole diff on its tree."""

    file: str
    edits: int
    exact: bool
    todo: tuple[str, ...]
