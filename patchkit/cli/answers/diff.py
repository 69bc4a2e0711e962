"""What ``diff`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.cli.answers.base import Answer, Left, TreeAnswer
from patchkit.plan.conflict import Conflict  # noqa: TC001  # schemas are made of it

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from patchkit.plan.status import FileChange
    from patchkit.tree.tree import CheckoutTree


class FileDiff(Answer, frozen=True, kw_only=True):
    """What would change in a file."""

    file: str
    patches: tuple[str, ...]
    diff: str


class Diff(Answer, frozen=True, kw_only=True):
    """``diff``; ``conflicts`` has a site for each edit that has no certain one.

    ``left`` are the patches that are left out because they do not fit.
    """

    tree: TreeAnswer
    files: tuple[FileDiff, ...]
    conflicts: tuple[Conflict, ...]
    left: tuple[Left, ...] = ()

    @classmethod
    def of(
        cls,
        tree: CheckoutTree,
        changes: Sequence[FileChange],
        texts: Mapping[str, bytes],
        conflicts: tuple[Conflict, ...],
        left: Mapping[str, str],
    ) -> Diff:
        """Return the answer for changes, whose diffs ``texts`` has by file, and for what was ``left`` out."""
        files = tuple(
            FileDiff(
                file=change.file,
                patches=change.patches,
                diff=texts[change.file].decode(errors="replace"),
            )
            for change in changes
        )
        return cls(tree=TreeAnswer.of(tree), files=files, conflicts=conflicts, left=Left.each(left))
