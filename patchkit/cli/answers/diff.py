"""The answer of ``diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, LeftOutAnswer, TreeAnswer
from patchkit.plan.conflict import Conflict  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.plan.status import FileChange
    from patchkit.tree.tree import CheckoutTree


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

    @classmethod
    def of(
        cls,
        tree: CheckoutTree,
        changes: Sequence[FileChange],
        texts: Mapping[str, bytes],
        conflicts: tuple[Conflict, ...],
        left: Mapping[str, str],
    ) -> Diff:
        """Return the answer for changes, with their diffs by file in ``texts``, conflicts, and patches left out."""
        files = tuple(
            FileDiff(
                file=change.file,
                patches=change.patches,
                diff=texts[change.file].decode(errors="replace"),
            )
            for change in changes
        )
        return cls(tree=TreeAnswer.of(tree), files=files, conflicts=conflicts, left=LeftOutAnswer.each(left))
