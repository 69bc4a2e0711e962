"""Reject tree objects with too many files or folders before they are walked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.tree.fork import FOLDER

if TYPE_CHECKING:
    from patchkit.tree.objects import GitRepository, GitTree

MAX_FOLDERS = 100
MAX_FILES = 200_000
"""The most files that are walked; many times those of a release."""


class Extents:
    """Counts the files below a repository's folders, and their depth, visiting each folder object once."""

    def __init__(self, repository: GitRepository) -> None:
        self._repository = repository
        self._known: dict[str, tuple[int, int]] = {}

    def require_bounded(self, tree: GitTree, folder: str = "") -> None:
        """Raise TreeError if a package, or a folder of it, has too many files or nests too deep."""
        top = self._repository.at(tree.id, folder) if folder else None
        self._of(tree, tree.id if top is None else top.id, 0)

    def _of(self, tree: GitTree, folder: str, above: int) -> tuple[int, int]:
        """Return the number of files below a folder, and the depth of its nesting."""
        if folder not in self._known and above <= MAX_FOLDERS:
            files, depth = 0, 0
            for entry in self._repository.entries(folder).values():
                below = self._of(tree, entry.id, above + 1) if entry.kind == FOLDER else (1, 0)
                files, depth = files + below[0], max(depth, below[1])
            self._known[folder] = files, depth + 1
        files, depth = self._known.get(folder, (0, 1))
        if above + depth > MAX_FOLDERS + 1 or files > MAX_FILES:
            raise TreeError(
                f"{tree.package_label} has folders more than {MAX_FOLDERS} deep or more than {MAX_FILES:,} files",
                advice="leave the ref out",
            )
        return files, depth
