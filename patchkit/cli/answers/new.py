"""The answer of ``new``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer

if TYPE_CHECKING:
    from patchkit.commands.new import DraftedPatch


class New(Answer, frozen=True, kw_only=True):
    """The answer of ``new``; ``exact`` is whether the edits reproduce the diff on its tree."""

    file: str
    edits: int
    hunks: int
    exact: bool
    todo: tuple[str, ...]

    @classmethod
    def of(cls, drafted: DraftedPatch) -> New:
        """Return the answer for a draft."""
        return cls(
            file=str(drafted.file),
            edits=drafted.edits,
            hunks=drafted.hunks,
            exact=drafted.exact,
            todo=drafted.todo,
        )
