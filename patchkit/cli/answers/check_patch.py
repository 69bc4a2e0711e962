"""The answer of ``test`` without trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from patchkit.commands.check import CheckedPatch


class CheckedFolder(Answer, frozen=True, kw_only=True):
    """A patch folder: the number of examples that ran, and the faults."""

    patch: str
    folder: str
    examples: int
    faults: tuple[str, ...]

    @classmethod
    def of(cls, checked: CheckedPatch) -> CheckedFolder:
        """Return the answer for a patch."""
        return cls(
            patch=checked.patch,
            folder=str(checked.folder),
            examples=checked.examples,
            faults=checked.faults,
        )


class CheckPatch(Answer, frozen=True, kw_only=True):
    """The answer of ``test`` without trees."""

    patches: tuple[CheckedFolder, ...]

    @classmethod
    def of(cls, checked: Iterable[CheckedPatch]) -> CheckPatch:
        """Return the answer for the patches of a folder."""
        return cls(patches=tuple(map(CheckedFolder.of, checked)))
