"""Write a tree from git's objects to a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import TreeError
from patchkit.transaction.folder import Folder

if TYPE_CHECKING:
    from pathlib import Path

    from patchkit.tree.objects import GitTree


def extract(tree: GitTree, package: Path, suffix: str = "") -> None:
    """Write a tree's files that end in ``suffix`` to the new folder ``package``; a link becomes a copy of its target.

    Raise TreeError if a name in the tree leads out of the folder, or if something is in a file's way.
    """
    try:
        package.mkdir(parents=True)
        with Folder.open(package) as folder:
            for file in tree.files("", suffix):
                content = tree.read(file)
                if content is not None:
                    folder.write_new_file(file, content)
    except OSError as error:
        raise TreeError(
            f"{tree.package_label} cannot be written to {package} ({error.strerror}: {error.filename})",
            advice="name an empty folder with enough space",
        ) from None
