"""The answer of ``new``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer

if TYPE_CHECKING:
    from patchkit.commands.new import DraftedPatch


class New(Answer, frozen=True, kw_only=True):
    """The answer of ``new``; ``exact`` is whether the patch makes the whole diff on its tree."""

    file: str
    edits: int
    exact: bool
    todo: tuple[str, ...]

    @classmethod
    def of(cls, drafted: DraftedPatch) -> New:
        """Return the answer for a draft."""
        return cls(
            file=str(drafted.file),
            edits=drafted.edits,
            exact=drafted.exact,
            todo=drafted.todo,
        )
